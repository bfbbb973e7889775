"""Many schedules, one after the other, in several processes: for so many seconds, or so many seeds."""

from __future__ import annotations

import functools
import multiprocessing
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection, wait
from typing import Any

from fanin_sim.fuzz.codes import Violation
from fanin_sim.fuzz.plan import Plan
from fanin_sim.fuzz.workloads import SCENES
from fanin_sim.fuzz.schedule import Outcome, Theatre, describe
from fanin_sim.fuzz.shrink import shrink
from fanin_sim.fuzz.trace_format import Story
from fanin_sim.fuzz.tally import Failure, Tally

MOST_FAILURES = 5  # of a process: then it stops, and says what it has found
TAIL = 40  # lines of a trace


def run(seconds: float, seed: int = 1, processes: int = 2, *, schedules: int | None = None) -> Tally:
    """Play schedules of the seeds `seed`, `seed` + 1, ... for so many seconds, or `schedules` of them.

    Each of the processes plays every `processes`-th seed. A process that dies is a failure of the seed that it played.
    """
    theatre = Theatre()
    _ = theatre.casts  # compile in one process, for all
    if processes == 1:
        return _play(theatre, seconds, _seeds(seed, 0, 1, schedules), [0], 0)
    total = Tally()
    total.merge(_gather(theatre, [_seeds(seed, number, processes, schedules) for number in range(processes)], seconds))
    return total


def _seeds(first: int, number: int, processes: int, schedules: int | None) -> range:
    count = 2**62 if schedules is None else schedules
    return range(first + number, first + count, processes)


def _gather(theatre: Theatre, seeds: list[range], seconds: float) -> Iterator[Tally]:
    """Tallies of processes that are forked from this one: what is compiled is theirs, too."""
    context = multiprocessing.get_context("fork")
    playing = context.RawArray("Q", len(seeds))  # the seed that each process plays
    workers = {}
    for number, own in enumerate(seeds):
        here, there = context.Pipe(duplex=False)
        process = context.Process(target=_work, args=(theatre, seconds, own, there, playing, number), daemon=True)
        process.start()
        there.close()
        workers[here] = process, number
    while workers:
        for ready in wait(list(workers)):
            assert isinstance(ready, Connection)
            process, number = workers.pop(ready)
            yield _result(theatre, ready, playing[number])
            process.join()


def _result(theatre: Theatre, connection: Connection, seed: int) -> Tally:
    try:
        return connection.recv()
    except EOFError:
        scene = SCENES[theatre.plan(seed).scene].name
        return Tally(
            schedules=1, failures=[Failure(seed, Violation.CRASH.name, scene, f"seed {seed} ends the process")]
        )


def _work(theatre: Theatre, seconds: float, seeds: range, results: Connection, playing: Any, number: int) -> None:
    results.send(_play(theatre, seconds, seeds, playing, number))


def _play(theatre: Theatre, seconds: float, seeds: range, playing: Any, number: int) -> Tally:
    """What one process does; it notes which seed it plays, for the case that it dies of it."""
    tally, begun = Tally(), time.monotonic()
    for seed in seeds:
        if time.monotonic() - begun > seconds or len(tally.failures) == MOST_FAILURES:
            break
        playing[number] = seed
        outcome = theatre.play(theatre.plan(seed))
        tally.add(outcome)
        if outcome.violation:
            tally.failures.append(explain(theatre, outcome))
    tally.wall_s = time.monotonic() - begun
    return tally


def explain(theatre: Theatre, broken: Outcome) -> Failure:
    """A schedule that has broken something, made as short as possible, in words."""
    short = shrink(theatre, broken)
    story = Story(short.plan)
    theatre.play(short.plan, short.faults, trace=True)
    return Failure(
        seed=broken.plan.seed,
        violation=broken.violation.name,
        scene=SCENES[broken.plan.scene].name,
        heading=f"{story.heading()}: {describe(short.outcome)}",
        faults=[story.fault(fault) for fault in short.faults],
        tail=list(story.lines(theatre.trace_of(short.plan)))[-TAIL:],
    )


@functools.cache
def theatre() -> Theatre:
    """The scenes of this process, for whoever plays single schedules."""
    return Theatre()


def replay(seed: int) -> tuple[Plan, Outcome, Iterator[str]]:
    """Play one seed again: its plan, what came of it, and every event of it in words."""
    plan = theatre().plan(seed)
    outcome = theatre().play(plan, trace=True)
    return plan, outcome, Story(plan).lines(theatre().trace_of(plan))

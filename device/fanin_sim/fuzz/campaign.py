"""Fuzzing campaigns: many schedules in several processes, for a time or for a number of seeds."""

from __future__ import annotations

import functools
import multiprocessing
import time
from collections import Counter
from collections.abc import Iterator
from multiprocessing.connection import Connection, wait
from typing import Any

from fanin_sim.findings import Finding
from fanin_sim.fuzz.codes import Violation
from fanin_sim.fuzz.plan import Plan
from fanin_sim.fuzz.schedule import Outcome, ScheduleRunner, describe
from fanin_sim.fuzz.shrink import shrink
from fanin_sim.fuzz.tally import FuzzTally, category_of
from fanin_sim.fuzz.trace_format import TraceFormatter
from fanin_sim.fuzz.workloads import WORKLOADS

MAX_FINDINGS = 5  # of a process, which then stops
TAIL = 40  # lines of a trace


def run(seconds: float, seed: int = 1, processes: int = 2, *, schedules: int | None = None) -> FuzzTally:
    """Runs schedules in several processes.

    Process number i of n runs the seeds `seed` + i, `seed` + i + n, ... A process that dies is a finding of the seed
    that it was running.

    Args:
        seconds: duration; no process starts another schedule after it.
        seed: the first seed.
        processes: number of processes. With 1, this process runs all schedules.
        schedules: number of seeds; without it only `seconds` ends the campaign.
    """
    runner = ScheduleRunner()
    _ = runner.fault_targets  # compiles the code once, before the processes are forked
    if processes == 1:
        return _run_seeds(runner, seconds, _seeds(seed, 0, 1, schedules), [0], 0)
    total = FuzzTally()
    total.merge_all(
        _gather(runner, [_seeds(seed, number, processes, schedules) for number in range(processes)], seconds)
    )
    return total


def _seeds(first: int, number: int, processes: int, schedules: int | None) -> range:
    count = 2**62 if schedules is None else schedules
    return range(first + number, first + count, processes)


def _gather(runner: ScheduleRunner, seeds: list[range], seconds: float) -> Iterator[FuzzTally]:
    """Forks one process for each range of seeds, and yields its tally. The processes share the compiled code."""
    context = multiprocessing.get_context("fork")
    current_seeds = context.RawArray("Q", len(seeds))  # the seed that each process is running
    workers = {}
    for number, own in enumerate(seeds):
        here, there = context.Pipe(duplex=False)
        arguments = runner, seconds, own, there, current_seeds, number
        process = context.Process(target=_work, args=arguments, daemon=True)
        process.start()
        there.close()
        workers[here] = process, number
    while workers:
        for ready in wait(list(workers)):
            assert isinstance(ready, Connection)
            process, number = workers.pop(ready)
            yield _result(runner, ready, current_seeds[number])
            process.join()


def _result(runner: ScheduleRunner, connection: Connection, seed: int) -> FuzzTally:
    """The tally that a process has sent, or one with a finding if the process has died."""
    try:
        return connection.recv()
    except EOFError:
        workload = WORKLOADS[runner.plan(seed).workload].name
        description = f"seed {seed}: {workload}: CRASH: the process has died"
        return FuzzTally(Counter(schedules=1), findings=[_finding(Violation.CRASH, seed, description)])


def _work(
    runner: ScheduleRunner, seconds: float, seeds: range, results: Connection, current_seeds: Any, number: int
) -> None:
    results.send(_run_seeds(runner, seconds, seeds, current_seeds, number))


def _run_seeds(runner: ScheduleRunner, seconds: float, seeds: range, current_seeds: Any, number: int) -> FuzzTally:
    """Runs the seeds of one process. Stores the current seed in `current_seeds`, where it survives the process."""
    tally, begun = FuzzTally(), time.monotonic()
    for seed in seeds:
        if time.monotonic() - begun > seconds or len(tally.findings) == MAX_FINDINGS:
            break
        current_seeds[number] = seed
        outcome = runner.run(runner.plan(seed))
        tally.add(outcome)
        if outcome.violation:
            tally.findings.append(explain(runner, outcome))
    tally.seconds = time.monotonic() - begun
    return tally


def explain(runner: ScheduleRunner, broken: Outcome) -> Finding:
    """Shrinks a schedule that has violated an invariant, and describes the result: its faults and its last events."""
    short = shrink(runner, broken)
    formatter = TraceFormatter(short.plan)
    runner.run(short.plan, short.faults, trace=True)
    faults = (f"fault: {formatter.fault(fault)}" for fault in short.faults)
    events = list(formatter.lines(runner.trace_of(short.plan)))[-TAIL:]
    description = f"{formatter.heading()}: {describe(short.outcome)}"
    return _finding(broken.violation, broken.plan.seed, description, (*faults, *events))


def _finding(violation: Violation, seed: int, description: str, details: tuple[str, ...] = ()) -> Finding:
    replay = f"fanin sim --seed {seed} --trace"
    return Finding(category_of(violation), description, replay, seed, details)


@functools.cache
def schedule_runner() -> ScheduleRunner:
    """The runner of this process, for single schedules."""
    return ScheduleRunner()


def replay(seed: int) -> tuple[Plan, Outcome, Iterator[str]]:
    """Runs one seed again.

    Returns:
        Its plan, its outcome, and a line for every event.
    """
    runner = schedule_runner()
    plan = runner.plan(seed)
    outcome = runner.run(plan, trace=True)
    return plan, outcome, TraceFormatter(plan).lines(runner.trace_of(plan))

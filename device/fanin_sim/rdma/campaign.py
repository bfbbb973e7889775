"""Campaigns: many schedules in several processes, for a time or for a number of seeds."""

from __future__ import annotations

import functools
import multiprocessing
import time
from collections import Counter
from collections.abc import Iterator
from multiprocessing.connection import Connection, wait
from typing import Any

from fanin_sim.findings import Finding
from fanin_sim.rdma.codes import Violation
from fanin_sim.rdma.plan import Plan, plan_of
from fanin_sim.rdma.schedule import Outcome, ScheduleRunner, describe
from fanin_sim.rdma.tally import RdmaTally, category_of
from fanin_sim.rdma.trace_format import heading, lines_of

MAX_FINDINGS = 5  # of a process, which then stops
TAIL = 40  # lines of a trace


def run(seconds: float, seed: int = 1, processes: int = 2, *, schedules: int | None = None) -> RdmaTally:
    """Run schedules in several processes.

    Process number i of n runs the seeds `seed` + i, `seed` + i + n, ... A process that dies is a finding of the seed
    that it was running.

    Args:
        seconds: duration; no process starts another schedule after it.
        seed: the first seed.
        processes: number of processes. With 1, this process runs all schedules.
        schedules: number of seeds; without it only `seconds` ends the campaign.
    """
    runner = schedule_runner()
    runner.prepare()  # compiles the code once, before the processes are forked
    last = 2**62 if schedules is None else schedules
    seeds = [range(seed + number, seed + last, processes) for number in range(processes)]
    if processes == 1:
        return _run_seeds(runner, seconds, seeds[0], [0], 0)
    total = RdmaTally()
    total.merge_all(_gather(runner, seconds, seeds))
    return total


def _gather(runner: ScheduleRunner, seconds: float, seeds: list[range]) -> Iterator[RdmaTally]:
    """Fork one process for each range of seeds, and yield its tally."""
    context = multiprocessing.get_context("fork")
    current = context.RawArray("Q", len(seeds))  # the seed that each process is running
    workers = {}
    for number, own in enumerate(seeds):
        here, there = context.Pipe(duplex=False)
        process = context.Process(target=_work, args=(runner, seconds, own, there, current, number), daemon=True)
        process.start()
        there.close()
        workers[here] = process, number
    while workers:
        for ready in wait(list(workers)):
            assert isinstance(ready, Connection)
            process, number = workers.pop(ready)
            yield _result(ready, current[number])
            process.join()


def _result(connection: Connection, seed: int) -> RdmaTally:
    """The tally that a process has sent, or one with a finding if the process has died."""
    try:
        return connection.recv()
    except EOFError:
        description = f"{heading(plan_of(seed))}: CRASH: the process has died"
        return RdmaTally(Counter(schedules=1), findings=[_finding(Violation.CRASH, seed, description)])


def _work(runner: ScheduleRunner, seconds: float, seeds: range, results: Connection, current: Any, number: int) -> None:
    results.send(_run_seeds(runner, seconds, seeds, current, number))


def _run_seeds(runner: ScheduleRunner, seconds: float, seeds: range, current: Any, number: int) -> RdmaTally:
    """Run the seeds of one process. Stores the current seed in `current`, where it survives the process."""
    tally, begun = RdmaTally(), time.monotonic()
    for seed in seeds:
        if time.monotonic() - begun > seconds or len(tally.findings) == MAX_FINDINGS:
            break
        current[number] = seed
        outcome = runner.run(plan_of(seed))
        tally.add(outcome)
        if outcome.violation:
            tally.findings.append(explain(runner, outcome))
    tally.seconds = time.monotonic() - begun
    return tally


def explain(runner: ScheduleRunner, broken: Outcome) -> Finding:
    """Describe a schedule that has violated what must hold, with its last events."""
    outcome = runner.run(broken.plan, trace=True)
    events = list(lines_of(runner.trace_of(broken.plan)))[-TAIL:]
    description = f"{heading(broken.plan)}: {describe(outcome)}"
    return _finding(broken.violation, broken.plan.seed, description, tuple(events))


def _finding(violation: Violation, seed: int, description: str, details: tuple[str, ...] = ()) -> Finding:
    replay_command = f"fanin sim --rdma --seed {seed} --trace"
    return Finding(category_of(violation), description, replay_command, seed, details)


@functools.cache
def schedule_runner() -> ScheduleRunner:
    """The runner of this process."""
    return ScheduleRunner()


def replay(seed: int) -> tuple[Plan, Outcome, Iterator[str]]:
    """Run one seed again.

    Returns:
        Its plan, its outcome, and a line for every event.
    """
    runner, plan = schedule_runner(), plan_of(seed)
    outcome = runner.run(plan, trace=True)
    return plan, outcome, lines_of(runner.trace_of(plan))

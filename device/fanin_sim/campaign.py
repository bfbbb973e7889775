"""Campaigns of a schedule fuzzer: many seeds in several processes, for a time or a number of schedules."""

import multiprocessing
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any, Generic, NamedTuple, TypeVar

from fanin_sim.findings import Finding, Tally

MAX_FINDINGS = 5  # of a process, which then stops
TELL_SECONDS = 1.0
TAIL = 40  # lines of a trace that a finding shows

AnyTally = TypeVar("AnyTally", bound=Tally)
Tell = Callable[[float], None]


def nobody(seconds: float) -> None:
    """The default of `tell`."""


class Replay(NamedTuple):
    """One schedule, event by event. `violation`: what was violated, in words; "" if nothing."""

    heading: str
    lines: Iterator[str]
    violation: str


@dataclass(frozen=True)
class Campaign(Generic[AnyTally]):
    """What a fuzzer does with a seed.

    new_tally: makes an empty tally.
    run_seed: runs a seed, and adds its outcome and its finding to a tally.
    crash: the finding of a seed whose process has died.
    """

    new_tally: Callable[[], AnyTally]
    run_seed: Callable[[int, AnyTally], None]
    crash: Callable[[int], Finding]


def run_campaign(
    campaign: Campaign[AnyTally],
    seconds: float,
    seed: int,
    processes: int,
    schedules: int | None,
    tell: Tell = nobody,
) -> AnyTally:
    """Runs schedules in several processes, which share the code that the caller has compiled.

    Process i of n runs the seeds `seed` + i, `seed` + i + n, ... The death of a process is a finding of its seed.

    Args:
        seconds: duration; no process starts another schedule after it.
        seed: the first seed.
        processes: number of processes. With 1, this process runs all schedules.
        schedules: number of seeds; without it only `seconds` ends the campaign.
        tell: called at times, when all processes run, with the seconds that have passed.
    """
    end = seed + (2**62 if schedules is None else schedules)
    seeds = [range(seed + number, end, processes) for number in range(processes)]
    if processes == 1:
        return _run_seeds(campaign, seconds, seeds[0], [0], 0, tell)
    total, tallies = campaign.new_tally(), _gather(campaign, seconds, seeds, tell)
    total.merge_all(tallies)
    return total


def _gather(campaign: Campaign[AnyTally], seconds: float, seeds: list[range], tell: Tell) -> Iterator[AnyTally]:
    """Forks one process for each range of seeds, and yields its tally."""
    context = multiprocessing.get_context("fork")
    current = context.RawArray("Q", len(seeds))  # the seed that each process is running
    workers = {}
    for number, own in enumerate(seeds):
        here, there = context.Pipe(duplex=False)
        arguments = campaign, seconds, own, there, current, number
        process = context.Process(target=_work, args=arguments, daemon=True)
        process.start()
        there.close()
        workers[here] = process, number
    begun = time.monotonic()
    while workers:
        tell(time.monotonic() - begun)
        for ready in wait(list(workers), TELL_SECONDS):
            assert isinstance(ready, Connection)
            process, number = workers.pop(ready)
            yield _result(campaign, ready, current[number])
            process.join()


def _result(campaign: Campaign[AnyTally], connection: Connection, seed: int) -> AnyTally:
    """The tally that a process has sent, or one with a finding if the process has died."""
    try:
        return connection.recv()
    except EOFError:
        tally = campaign.new_tally()
        tally.counts["schedules"] = 1
        tally.findings.append(campaign.crash(seed))
        return tally


def _work(
    campaign: Campaign[AnyTally], seconds: float, seeds: range, results: Connection, current: Any, number: int
) -> None:
    results.send(_run_seeds(campaign, seconds, seeds, current, number))


def _run_seeds(
    campaign: Campaign[AnyTally], seconds: float, seeds: range, current: Any, number: int, tell: Tell = nobody
) -> AnyTally:
    """Runs the seeds of one process. The current seed is in shared memory, `current`, for the case that it dies."""
    tally, begun, told = campaign.new_tally(), time.monotonic(), 0.0
    for seed in seeds:
        passed = time.monotonic() - begun
        if passed > seconds or len(tally.findings) == MAX_FINDINGS:
            break
        if passed >= told + TELL_SECONDS:
            tell(passed)
            told = passed
        current[number] = seed
        campaign.run_seed(seed, tally)
    tally.seconds = time.monotonic() - begun
    return tally

"""Campaigns of a schedule fuzzer: many seeds in several processes; the command that runs them.

The command prints the tally as JSON. Its exit code is 1 after a violation. Tests of defective devices use these
commands; `fanin sim` prints tables for people.
"""

import json
import multiprocessing
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any, Generic, NamedTuple, TypeVar

from fanin_sim.findings import Finding, Tally
from fanin_wire.command_line import Parser

MAX_FINDINGS = 5  # of a process, which then stops
TAIL = 40  # lines of a trace that a finding shows
TELL_SECONDS = 1.0
LINE_SECONDS = 15.0  # between two lines about the progress
AnyTally = TypeVar("AnyTally", bound=Tally)
Tell = Callable[[float], None]


def tell_nobody(seconds: float) -> None:
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
    tell: Tell = tell_nobody,
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
    campaign: Campaign[AnyTally], seconds: float, seeds: range, current: Any, number: int, tell: Tell = tell_nobody
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


def main(
    module: str, run: Callable[..., Tally], replay: Callable[[int], Replay], arguments: Sequence[str] | None = None
) -> int:
    """Entry point; returns the exit code. run, replay: those of the fuzzer that `module` names."""
    parser = Parser(prog=f"python -m {module}", description="Runs schedules.")
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--schedules", type=int, help="number of seeds; without it, --seconds ends the run")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--trace", action="store_true", help="run one seed, and print every event")
    given = parser.parse_args(arguments)
    if given.trace:
        return _trace(replay(given.seed))
    seconds = given.seconds if given.schedules is None else float("inf")
    tally = run(seconds, given.seed, given.processes, schedules=given.schedules, tell=_teller())
    print(json.dumps(tally.as_dict(), indent=2))
    return 1 if tally.findings else 0


def _teller() -> Tell:
    """Prints a line at times on the error output."""
    due = LINE_SECONDS

    def tell(seconds: float) -> None:
        nonlocal due
        if seconds >= due:
            due += LINE_SECONDS
            print(f"running schedules ... {seconds:.0f} s", file=sys.stderr, flush=True)

    return tell


def _trace(replayed: Replay) -> int:
    print(replayed.heading)
    for line in replayed.lines:
        print(line)
    if replayed.violation:
        print(replayed.violation)
    return 1 if replayed.violation else 0

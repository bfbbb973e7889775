"""Run the matrix: one worker pool, one job for each setup, many calls in each job."""

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

from fanin_tools.fabric.lifecycle import Running
from fanin_tools.launch import job_file
from fanin_tools.launch.collective_call import CollectiveCall
from fanin_tools.launch.worker_pool import WorkerPool, first_failure, wrong_elements
from fanin_tools.progress import ProgressCallback
from fanin_tools.quantities import counted
from fanin_tools.stress.matrix.combinations import call_of
from fanin_tools.stress.matrix.pairwise import Combination
from fanin_tools.stress.matrix.topologies import MODES, JobSetup

CALLS_PER_COMMAND = 100


@dataclass(frozen=True)
class Failure:
    """A call that failed: on which setup, and how."""

    setup: JobSetup
    call: CollectiveCall
    what: str

    def __str__(self) -> str:
        return f"{self.setup}: {self.call}: {self.what}"


@dataclass
class Result:
    """Number of calls by collective and topology, and the calls that failed."""

    executed: dict[tuple[str, str], int] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)

    def add(self, setup: JobSetup, call: CollectiveCall, what: str) -> None:
        """what: how it failed; "" if it did not."""
        place = (call.collective, setup.topology)
        self.executed[place] = self.executed.get(place, 0) + 1
        if what:
            self.failures.append(Failure(setup, call, what))

    @property
    def calls(self) -> int:
        return sum(self.executed.values())

    def failed(self, collective: str, topology: str) -> int:
        """Failed calls of a cell of the table."""
        return sum(each.call.collective == collective and each.setup.topology == topology for each in self.failures)

    def as_dict(self) -> dict[str, Any]:
        table = [
            {
                "collective": collective,
                "topology": topology,
                "cases": count,
                "failures": self.failed(collective, topology),
            }
            for (collective, topology), count in self.executed.items()
        ]
        return {"cases": self.calls, "failures": [str(failure) for failure in self.failures], "table": table}


def run(running: Running, combinations: Iterable[Combination], seed: int, progress: ProgressCallback) -> Result:
    """Make the calls of all `combinations`, those of a setup in one job. seed: of the random choices."""
    random = Random(seed)
    cells: dict[JobSetup, list[CollectiveCall]] = {}
    for combination in combinations:
        cells.setdefault(combination["setup"], []).append(call_of(combination, random))
    result = Result()
    with WorkerPool(running, max((setup.size for setup in cells), default=0)) as pool:
        for setup, calls in sorted(cells.items()):
            progress(f"{setup}: {counted(len(calls), 'case')} ...")
            _execute_all(pool, setup, calls, result)
    return result


def _execute_all(pool: WorkerPool, setup: JobSetup, calls: list[CollectiveCall], result: Result) -> None:
    """Make all calls of a setup in one job, and in a new job after each call that ends it."""
    left = list(calls)
    while left:
        placement = setup.placement(pool.running.fabric)
        pool.join(placement, job_file.describe(pool.running, placement, MODES[setup.mode]), staged=setup.staged)
        stopped = _execute_until_stopped(pool, setup, left, result)
        pool.call(setup.size, "leave")
        left = left[stopped:]


def _execute_until_stopped(pool: WorkerPool, setup: JobSetup, calls: list[CollectiveCall], result: Result) -> int:
    """Make calls until one ends the job; their number."""
    executed = 0
    for batch in _batches(calls):
        replies = pool.call(setup.size, "try", calls=[call.as_dict() for call in batch])
        wrong, failure = wrong_elements(replies), first_failure(replies)
        done = batch if failure is None else batch[: failure[0] + 1]
        for number, call in enumerate(done):
            what = f"{counted(wrong[number], 'wrong element')}" if number in wrong else ""
            if failure is not None and number == failure[0]:
                what = str(failure[1])
            result.add(setup, call, what)
        executed += len(done)
        if failure is not None:
            break
    return executed


def _batches(calls: list[CollectiveCall]) -> Iterator[list[CollectiveCall]]:
    for start in itertools.count(0, CALLS_PER_COMMAND):
        if start >= len(calls):
            return
        yield calls[start : start + CALLS_PER_COMMAND]

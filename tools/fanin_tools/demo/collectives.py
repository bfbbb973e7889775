"""Every collective over every route, and every operation with every type that it supports, verified bit for bit."""

from dataclasses import dataclass
from typing import Any

from fanin_tools.demo.allreduce import SEED
from fanin_tools.demo.section_result import SectionResult
from fanin_tools.launch import job_file
from fanin_tools.launch.collective_call import BARRIER, COLLECTIVES, UNDIVIDED, CollectiveCall, DataLayout
from fanin_tools.launch.placement import Placement
from fanin_tools.launch.worker_pool import WorkerPool, count_wrong_elements, elapsed_seconds
from fanin_tools.progress import ProgressCallback
from fanin_tools.quantities import counted
from fanin_wire.datatypes import DATATYPES
from fanin_wire.operations import OPERATIONS
from fanin_wire.settings import JobSettings

MESSAGE_ELEMENTS = 1 << 18  # of f32: 1 MiB; less in a vector collective
ELEMENT_BYTES = 4
OPERATION_ELEMENTS = 1500  # of each op and type: several segments, the last one not full
SHOWN = tuple(name for name in COLLECTIVES if name != "allreduce")


@dataclass(frozen=True)
class CollectiveResult:
    """bytes: of its message over the first route. seconds, wrong: of each route; wrong elements."""

    collective: str
    bytes: int
    seconds: dict[str, float]
    wrong: dict[str, int]

    @property
    def verified(self) -> bool:
        return not any(self.wrong.values())

    def as_dict(self) -> dict[str, Any]:
        return {
            "collective": self.collective,
            "bytes": self.bytes,
            "verified": self.verified,
            "wrong_elements": self.wrong,
            "seconds": self.seconds,
        }


def run(
    pool: WorkerPool, placements: list[Placement], settings: JobSettings, progress: ProgressCallback
) -> list[CollectiveResult]:
    """Run every collective but allreduce over every placement."""
    tried = {placement.route: _try_route(pool, placement, settings, progress) for placement in placements}
    rows = []
    for number, name in enumerate(SHOWN):
        seconds = {route: times[number] for route, (times, _) in tried.items()}
        wrong = {route: wrong.get(number, 0) for route, (_, wrong) in tried.items()}
        message = DataLayout(_call_of(name, placements[0].size), placements[0].size)
        rows.append(CollectiveResult(name, 0 if name == BARRIER else ELEMENT_BYTES * message.length, seconds, wrong))
    return rows


def _try_route(
    pool: WorkerPool, placement: Placement, settings: JobSettings, progress: ProgressCallback
) -> tuple[list[float], dict[int, int]]:
    """Seconds of each collective, and wrong elements by number of the collective."""
    progress(f"{placement.route}: {counted(len(SHOWN), 'collective')} ...")
    pool.join(placement, job_file.describe(pool.running, placement, settings))
    replies = pool.call(placement.size, "try", calls=[_call_of(name, placement.size).as_dict() for name in SHOWN])
    pool.call(placement.size, "leave")
    wrong = count_wrong_elements(replies)
    return elapsed_seconds(replies), wrong


def _call_of(name: str, size: int) -> CollectiveCall:
    elements = MESSAGE_ELEMENTS if name in UNDIVIDED else MESSAGE_ELEMENTS // size
    return CollectiveCall(name, elements, root=size - 1, seed=SEED)


def operations(
    pool: WorkerPool, placement: Placement, settings: JobSettings, progress: ProgressCallback
) -> SectionResult:
    """Run every operation with every type that it supports over one route."""
    pairs = [(op.name.lower(), kind.name) for op in OPERATIONS for kind in DATATYPES if op.takes(kind)]
    progress(f"{placement.route}: {len(pairs)} pairs of operation and type ...")
    calls = [
        CollectiveCall("allreduce", OPERATION_ELEMENTS, dtype, op, seed=SEED, registered=False) for op, dtype in pairs
    ]
    pool.join(placement, job_file.describe(pool.running, placement, settings))
    replies = pool.call(placement.size, "try", calls=[call.as_dict() for call in calls])
    pool.call(placement.size, "leave")
    wrong = count_wrong_elements(replies)
    bad = ", ".join(f"{pairs[number][0]} of {pairs[number][1]}" for number in sorted(wrong))
    what = f"{len(OPERATIONS)} operations on {len(DATATYPES)} types"
    outcome = f"wrong: {bad}" if bad else f"every bit of the {len(pairs)} pairs that devices compute"
    return SectionResult("operations", placement.route, what, outcome, not bad)

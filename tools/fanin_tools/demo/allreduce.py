"""One verified allreduce for each route, in the same worker pool on the same fabric."""

from dataclasses import asdict, dataclass, field
from typing import Any

from fanin_tools.demo import accounting, expected_traffic
from fanin_tools.demo.accounting import ResourceUse
from fanin_tools.demo.expected_traffic import Payload
from fanin_tools.errors import UsageError
from fanin_tools.fabric.description import Fabric
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.fabric.tree import Tree
from fanin_tools.launch import job_file
from fanin_tools.launch.collective_call import CollectiveCall
from fanin_tools.launch.placement import Placement, place
from fanin_tools.launch.worker_pool import WorkerPool, count_wrong_elements, elapsed_seconds
from fanin_tools.progress import ProgressCallback
from fanin_tools.quantities import counted
from fanin_wire.datatypes import UnsupportedDataType, datatype_by_name
from fanin_wire.operations import UnsupportedOperation, check_supported, operation_by_name
from fanin_wire.settings import JobSettings

ROUTES = ("tree", "ring", "local")
CROSS_CHECKED = ("sum", "min", "max", "mean")
CROSS_CHECK_BYTES = 64 << 10  # of each further op
SEED = 20


@dataclass(frozen=True)
class Task:
    """What to reduce. registered: in memory that the device maps; else in ordinary memory."""

    bytes: int
    dtype: str = "f32"
    op: str = "sum"
    settings: JobSettings = field(default_factory=JobSettings)
    registered: bool = True
    cross_check: bool = True

    @property
    def elements(self) -> int:
        """The message's bytes, rounded up to whole elements."""
        return -(-self.bytes // datatype_by_name(self.dtype).itemsize)

    @property
    def message_bytes(self) -> int:
        return self.elements * datatype_by_name(self.dtype).itemsize

    def call(self, op: str = "") -> CollectiveCall:
        """The measured call; for another op one with a smaller message, in the other kind of memory."""
        if not op:
            return CollectiveCall(
                "allreduce", self.elements, self.dtype, self.op, seed=SEED, registered=self.registered
            )
        elements = min(self.elements, CROSS_CHECK_BYTES // datatype_by_name(self.dtype).itemsize)
        return CollectiveCall("allreduce", elements, self.dtype, op, seed=SEED, registered=not self.registered)

    def further_ops(self) -> list[str]:
        """Ops to verify beside the measured one."""
        takes = [op for op in CROSS_CHECKED if operation_by_name(op).takes(datatype_by_name(self.dtype))]
        return [op for op in takes if op != self.op] if self.cross_check else []


@dataclass(frozen=True)
class RouteResult:
    """wrong: elements with a wrong bit, over all ranks. checked: ops that were verified. expected: payload of each
    sending device if nothing is resent."""

    route: str
    nodes: int
    ranks: int
    bytes: int
    seconds: float
    wrong: int
    checked: tuple[str, ...]
    expected: dict[str, Payload]
    use: ResourceUse

    @property
    def verified(self) -> bool:
        return self.wrong == 0

    def as_dict(self) -> dict[str, Any]:
        return {
            "route": self.route,
            "nodes": self.nodes,
            "ranks": self.ranks,
            "bytes": self.bytes,
            "verified": self.verified,
            "wrong_elements": self.wrong,
            "verified_ops": list(self.checked),
            "seconds": self.seconds,
            "expected": {name: payload._asdict() for name, payload in self.expected.items()},
            **asdict(self.use),
        }


def check_task(task: Task) -> None:
    """Raise UsageError for an unknown op or dtype, or an op that does not take the dtype."""
    try:
        check_supported(operation_by_name(task.op), datatype_by_name(task.dtype))
    except (UnsupportedOperation, UnsupportedDataType) as error:
        raise UsageError(str(error), "choose --op and --dtype from these") from None


def routes_of(fabric: Fabric, wanted: str) -> list[str]:
    """`wanted`, or with "all" every route of this fabric. Raises UsageError for a route that it lacks."""
    if wanted in ROUTES:
        placement_of(fabric, wanted)
        return [wanted]
    if wanted != "all":
        raise UsageError(f"{wanted!r} is not a route", f"use one of {', '.join(ROUTES)}, all")
    across = [] if len(fabric.nics) == 1 else [route for route in ("tree", "ring") if _has(fabric, route)]
    return [*across, "local"]


def _has(fabric: Fabric, route: str) -> bool:
    try:
        placement_of(fabric, route)
    except UsageError:
        return False
    return True


def placement_of(fabric: Fabric, route: str) -> Placement:
    """All ranks of the fabric; with route local, those of its first node."""
    total = sum(nic.ranks for nic in fabric.nics)
    return place(fabric, Tree(fabric).nics()[0].ranks if route == "local" else total, route)


def run(running: Running, routes: list[str], task: Task, progress: ProgressCallback) -> list[RouteResult]:
    """Run and verify `task` over each of `routes`, in one worker pool."""
    check_task(task)
    placements = [placement_of(running.fabric, route) for route in routes]
    with WorkerPool(running, max(placement.size for placement in placements)) as pool:
        return [run_route(pool, placement, task, progress) for placement in placements]


def run_route(pool: WorkerPool, placement: Placement, task: Task, progress: ProgressCallback) -> RouteResult:
    size, running = placement.size, pool.running
    members = f"{counted(size, 'rank')} on {counted(len(placement.nics), 'node')}"
    progress(f"{placement.route}: {members}, {counted(task.message_bytes, 'byte')} each ...")
    job = job_file.describe(running, placement, task.settings)
    pool.join(placement, job)
    further = task.further_ops()
    replies = pool.call(size, "try", calls=[task.call(op).as_dict() for op in further])
    wrong = sum(count_wrong_elements(replies).values())
    before = accounting.snapshot(running)
    wrong, seconds = _reduce(pool, size, task)
    use = accounting.between(running, before, accounting.snapshot(running), int(str(job["jid"])))
    pool.call(size, "leave")
    return RouteResult(
        route=placement.route,
        nodes=len(placement.nics),
        ranks=size,
        bytes=task.message_bytes,
        seconds=seconds,
        wrong=wrong + wrong,
        checked=(task.op, *further),
        expected=expected_payload(running.fabric, placement, task),
        use=use,
    )


def expected_payload(fabric: Fabric, placement: Placement, task: Task) -> dict[str, Payload]:
    """What each device of a route must send and receive, if nothing is resent."""
    operation, datatype = operation_by_name(task.op), datatype_by_name(task.dtype)
    segmentation = expected_traffic.segmentation(
        task.message_bytes, job_file.chunk_for(fabric.path_mtu), operation, datatype, task.settings
    )
    return expected_traffic.expected(
        placement, segmentation, {switch.address: switch.name for switch in fabric.switches}
    )


def _reduce(pool: WorkerPool, size: int, task: Task) -> tuple[int, float]:
    """Wrong elements over all ranks, and seconds from the last rank's start to the last rank's end."""
    pool.call(size, "prepare", call=task.call().as_dict())
    times = pool.call(size, "run", repeat=1)
    wrong = sum(reply["wrong"] for reply in pool.call(size, "verify"))
    return wrong, elapsed_seconds(times)[0]

"""One verified allreduce for each route, in the same rank processes on the same fabric."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from fanin_tools.demo import accounting, expected_traffic
from fanin_tools.demo.accounting import Use
from fanin_tools.demo.expected_traffic import Payload
from fanin_tools.errors import UsageError
from fanin_tools.fabric.daemons import Say
from fanin_tools.fabric.description import Fabric
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.fabric.tree import Tree
from fanin_tools.launch import job_file
from fanin_tools.launch.collective_call import Case
from fanin_tools.launch.job_file import Terms
from fanin_tools.launch.placement import Placement, place
from fanin_tools.launch.replies import mistakes_of, slowest
from fanin_tools.launch.worker_pool import Crew
from fanin_tools.quantities import counted
from fanin_wire.datatypes import UnsupportedDataType, datatype_by_name
from fanin_wire.operations import UnsupportedOperation, check_supported, operation_by_name

ROUTES = ("tree", "ring", "local")
CROSS_CHECKED = ("sum", "min", "max", "mean")
CROSS_CHECK_BYTES = 64 << 10  # of each further op
SEED = 20


@dataclass(frozen=True)
class Task:
    """What is to be reduced. registered: in memory that the device maps, else in ordinary memory of the process."""

    bytes: int
    dtype: str = "f32"
    op: str = "sum"
    terms: Terms = field(default_factory=Terms)
    registered: bool = True
    cross_check: bool = True

    @property
    def elements(self) -> int:
        """Elements of the message: bytes, rounded up to whole elements."""
        return -(-self.bytes // datatype_by_name(self.dtype).itemsize)

    @property
    def message_bytes(self) -> int:
        """Bytes of the message."""
        return self.elements * datatype_by_name(self.dtype).itemsize

    def case(self, op: str = "") -> Case:
        """What is measured; or a smaller message for another op, in the other kind of memory."""
        if not op:
            return Case("allreduce", self.elements, self.dtype, self.op, seed=SEED, registered=self.registered)
        elements = min(self.elements, CROSS_CHECK_BYTES // datatype_by_name(self.dtype).itemsize)
        return Case("allreduce", elements, self.dtype, op, seed=SEED, registered=not self.registered)

    def further_ops(self) -> list[str]:
        """Ops that are verified beside the one that is measured."""
        takes = [op for op in CROSS_CHECKED if operation_by_name(op).takes(datatype_by_name(self.dtype))]
        return [op for op in takes if op != self.op] if self.cross_check else []


@dataclass(frozen=True)
class Outcome:
    """What came of one route.

    wrong: elements with a wrong bit, over all ranks
    checked: ops that were verified
    expected: payload of each device that sends up or round, if nothing is sent again
    """

    route: str
    nodes: int
    ranks: int
    bytes: int
    seconds: float
    wrong: int
    checked: tuple[str, ...]
    expected: dict[str, Payload]
    use: Use

    @property
    def verified(self) -> bool:
        """Whether every bit on every rank was right."""
        return self.wrong == 0

    def as_dict(self) -> dict[str, Any]:
        """The same for `--json`."""
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
    """Raise UsageError for an op or a dtype that there is none of, or that do not go together."""
    try:
        check_supported(operation_by_name(task.op), datatype_by_name(task.dtype))
    except (UnsupportedOperation, UnsupportedDataType) as error:
        raise UsageError(str(error), "choose --op and --dtype from these") from None


def routes_of(fabric: Fabric, wanted: str) -> list[str]:
    """The routes to show: the one asked for, or with "all" every one that this fabric has.

    Raises UsageError for a route that there is none of, or that this fabric does not have.
    """
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
    """All ranks of the fabric, or with route local all of its first node."""
    total = sum(nic.ranks for nic in fabric.nics)
    return place(fabric, Tree(fabric).nics()[0].ranks if route == "local" else total, route)


def run(running: Running, routes: list[str], task: Task, say: Say) -> list[Outcome]:
    """Run and verify `task` over each of `routes`, with ranks of its own."""
    check_task(task)
    placements = [placement_of(running.fabric, route) for route in routes]
    with Crew(running, max(placement.size for placement in placements)) as crew:
        return [run_route(crew, placement, task, say) for placement in placements]


def run_route(crew: Crew, placement: Placement, task: Task, say: Say) -> Outcome:
    """Run and verify `task` over one route."""
    size, running = placement.size, crew.running
    members = f"{counted(size, 'rank')} on {counted(len(placement.nics), 'node')}"
    say(f"{placement.route}: {members}, {counted(task.message_bytes, 'byte')} each ...")
    job = job_file.describe(running, placement, task.terms)
    crew.join(placement, job)
    further = task.further_ops()
    answers = crew.ask(size, "try", cases=[task.case(op).as_dict() for op in further])
    wrong = sum(mistakes_of(answers).values())
    before = accounting.snapshot(running)
    mistakes, seconds = _reduce(crew, size, task)
    use = accounting.between(running, before, accounting.snapshot(running), int(str(job["jid"])))
    crew.ask(size, "leave")
    return Outcome(
        route=placement.route,
        nodes=len(placement.nics),
        ranks=size,
        bytes=task.message_bytes,
        seconds=seconds,
        wrong=wrong + mistakes,
        checked=(task.op, *further),
        expected=expected_payload(running.fabric, placement, task),
        use=use,
    )


def expected_payload(fabric: Fabric, placement: Placement, task: Task) -> dict[str, Payload]:
    """What each device of a route must send and get, if nothing is sent again."""
    operation, datatype = operation_by_name(task.op), datatype_by_name(task.dtype)
    cut = expected_traffic.cut(task.message_bytes, job_file.chunk_for(fabric.mtu), operation, datatype, task.terms)
    return expected_traffic.expected(placement, cut, {switch.address: switch.name for switch in fabric.switches})


def _reduce(crew: Crew, size: int, task: Task) -> tuple[int, float]:
    """Wrong elements on all ranks, and seconds from the last rank's start to the last rank's end."""
    crew.ask(size, "prepare", case=task.case().as_dict())
    times = crew.ask(size, "run", repeat=1)
    wrong = sum(answer["wrong"] for answer in crew.ask(size, "verify"))
    return wrong, slowest(times)[0]

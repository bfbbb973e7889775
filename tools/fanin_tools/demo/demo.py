"""One verified allreduce for each route, in the same rank processes on the same fabric."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fanin_tools.demo import accounting
from fanin_tools.demo.accounting import Use
from fanin_tools.errors import UsageError
from fanin_tools.fabric.description import Fabric
from fanin_tools.fabric.devices import Say
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.fabric.tree import Tree
from fanin_tools.job import job_file, patterns
from fanin_tools.job.crew import Crew
from fanin_tools.job.job_file import Terms
from fanin_tools.job.placement import Placement, place
from fanin_tools.quantities import counted

ROUTES = ("tree", "ring", "local")
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
    def item_bytes(self) -> int:
        """Bytes of one element."""
        return np.dtype(patterns.DTYPES[self.dtype]).itemsize

    @property
    def elements(self) -> int:
        """Elements of the message: bytes, rounded up to whole elements."""
        return -(-self.bytes // self.item_bytes)

    @property
    def message_bytes(self) -> int:
        """Bytes of the message."""
        return self.elements * self.item_bytes


@dataclass(frozen=True)
class Outcome:
    """What came of one route. wrong: elements with a wrong bit, over all ranks. checked: ops that were verified."""

    route: str
    nodes: int
    ranks: int
    bytes: int
    seconds: float
    wrong: int
    checked: tuple[str, ...]
    use: Use

    @property
    def verified(self) -> bool:
        """Whether every bit on every rank was right."""
        return self.wrong == 0

    @property
    def expected_payload(self) -> float:
        """Payload bytes up, and down, on each NIC's links."""
        return accounting.expected_payload(self.route, self.nodes, self.bytes)

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
            "expected_payload_per_link": self.expected_payload,
            **self.use.as_dict(),
        }


def check_task(task: Task) -> None:
    """Raise UsageError for an op or a dtype that there is none of."""
    for value, known in ((task.op, patterns.OPS), (task.dtype, tuple(patterns.DTYPES))):
        if value not in known:
            raise UsageError(f"{value!r} is not one of {', '.join(known)}", "choose one of these")


def routes_of(fabric: Fabric, wanted: str) -> list[str]:
    """The routes to show: the one asked for, or with "all" every one that this fabric has.

    Raises UsageError for a route that there is none of, or that this fabric does not have.
    """
    if wanted in ROUTES:
        _place(fabric, wanted)
        return [wanted]
    if wanted != "all":
        raise UsageError(f"{wanted!r} is not a route", f"use one of {', '.join(ROUTES)}, all")
    across = [] if len(fabric.nics) == 1 else [route for route in ("tree", "ring") if _has(fabric, route)]
    return [*across, "local"]


def _has(fabric: Fabric, route: str) -> bool:
    try:
        _place(fabric, route)
    except UsageError:
        return False
    return True


def _place(fabric: Fabric, route: str) -> Placement:
    """All ranks of the fabric, or with route local all of its first node."""
    total = sum(nic.ranks for nic in fabric.nics)
    return place(fabric, Tree(fabric).nics()[0].ranks if route == "local" else total, route)


def run(running: Running, routes: list[str], task: Task, say: Say) -> list[Outcome]:
    """Run and verify `task` over each of `routes`."""
    check_task(task)
    placements = [_place(running.fabric, route) for route in routes]
    with Crew(running, max(placement.size for placement in placements)) as crew:
        return [_run_route(running, crew, placement, task, say) for placement in placements]


def _run_route(running: Running, crew: Crew, placement: Placement, task: Task, say: Say) -> Outcome:
    size = placement.size
    members = f"{counted(size, 'rank')} on {counted(len(placement.nics), 'node')}"
    say(f"{placement.route}: {members}, {counted(task.message_bytes, 'byte')} each ...")
    job = job_file.describe(running, placement, task.terms)
    crew.join(placement, job)
    wrong, checked = 0, []
    for op in patterns.OPS if task.cross_check else ():
        if op != task.op:
            small = Task(min(task.bytes, CROSS_CHECK_BYTES), task.dtype, op, registered=not task.registered)
            wrong += _reduce(crew, size, small)[0]
            checked.append(op)
    before = accounting.snapshot(running)
    mistakes, seconds = _reduce(crew, size, task)
    use = accounting.between(running, before, accounting.snapshot(running), int(str(job["jid"])))
    crew.ask(size, "leave")
    nodes = len(placement.nics)
    done = (task.op, *checked)
    return Outcome(placement.route, nodes, size, task.message_bytes, seconds, wrong + mistakes, done, use)


def _reduce(crew: Crew, size: int, task: Task) -> tuple[int, float]:
    """Wrong elements on all ranks, and seconds from the last rank's start to the last rank's end."""
    prepared = {"op": task.op, "dtype": task.dtype, "elements": task.elements, "seed": SEED}
    crew.ask(size, "prepare", registered=task.registered, **prepared)
    times = crew.ask(size, "run", repeat=1)
    wrong = sum(answer["wrong"] for answer in crew.ask(size, "verify"))
    start = max(answer["start_ns"][0] for answer in times)
    return wrong, (max(answer["end_ns"][0] for answer in times) - start) * 1e-9

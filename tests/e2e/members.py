"""The ranks of a job as threads of the test: what each of them gets, a result or an exception, within a bound."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from fanin import Communicator, FaninError, Job
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.fabric.tree import Tree
from fanin_tools.job import job_file
from fanin_tools.job.placement import Placement, place
from fanin_tools.job.ways import Way, ways_of
from tests.e2e.fabrics import BOUND_S

SLACK_S = 10.0  # of a thread over the bound of what it waits for


def together(count: int, act: Callable[[int], Any], seconds: float = BOUND_S) -> list[Any]:
    """`act(rank)` of all ranks at the same time; what each returned, or the FaninError that it raised."""
    outcomes: dict[int, Any] = {}

    def one(rank: int) -> None:
        try:
            outcomes[rank] = act(rank)
        except BaseException as error:
            outcomes[rank] = error

    threads = [threading.Thread(target=one, args=(rank,), daemon=True) for rank in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds + SLACK_S)
    hanging = [rank for rank in range(count) if rank not in outcomes]
    assert not hanging, f"ranks {hanging} hang"
    for outcome in outcomes.values():
        if isinstance(outcome, BaseException) and not isinstance(outcome, FaninError):
            raise outcome
    return [outcomes[rank] for rank in range(count)]


def describe(running: Running, size: int, route: str, slots: int = job_file.DEFAULT_SLOTS) -> tuple[Placement, Job]:
    """A new job of `size` ranks, spread over the nodes as `fanin run` does it."""
    placement = place(running.fabric, size, route)
    return placement, Job.from_dict(job_file.describe(running, placement, job_file.Terms(slots)))


def socket_of(running: Running, placement: Placement, rank: int) -> str:
    """Control socket of the NIC of a rank."""
    return str(running.state.socket(placement.nics[placement.node_of(rank)].name))


def across(running: Running, nodes: Sequence[int], route: str, slots: int = 8) -> tuple[Job, list[str]]:
    """A new job of one rank on each of `nodes` (numbers of NICs), and the control socket of each rank."""
    nics = tuple(running.fabric.nics[node] for node in nodes)
    ways = ways_of(Tree(running.fabric), nics) if route == "tree" else None
    placement = Placement(route, nics, tuple((rank,) for rank in range(len(nics))), ways or (Way(),) * len(nics))
    described = Job.from_dict(job_file.describe(running, placement, job_file.Terms(slots)))
    return described, [str(running.state.socket(nic.name)) for nic in nics]


@contextlib.contextmanager
def job(running: Running, size: int, route: str, **parts: Any) -> Iterator[list[Communicator]]:
    """The communicators of a new job, by rank; they leave at the end, whatever has become of the job."""
    placement, description = describe(running, size, route, **parts)

    def join(rank: int) -> Communicator:
        return Communicator(description, rank, socket_of(running, placement, rank), timeout=BOUND_S)

    members = together(size, join)
    refusals = [member for member in members if isinstance(member, FaninError)]
    if refusals:
        raise refusals[0]
    try:
        yield members
    finally:
        together(size, lambda rank: members[rank].close())


def errors_of(outcomes: Sequence[Any]) -> list[str]:
    """Name of the exception of each rank; "no error" where there is a result."""
    return [type(outcome).__name__ if isinstance(outcome, FaninError) else "no error" for outcome in outcomes]

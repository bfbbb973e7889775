"""Jobs on a fabric whose devices have several lanes; their ranks are threads of the test."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from fanin import Communicator, Job
from fanin_tools import control
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.job import job_file
from fanin_tools.job.placement import place

BOUND_S = 30  # longest that anything here may take before a test fails
SLOTS = 64


def together(size: int, act: Callable[[int], Any]) -> list[Any]:
    """`act(rank)` of all ranks at once; results, or exceptions, in the order of the ranks."""
    with ThreadPoolExecutor(size) as pool:
        futures = [pool.submit(act, rank) for rank in range(size)]
        return [future.exception(BOUND_S) or future.result() for future in futures]


def describe(running: Running, size: int, route: str) -> tuple[Job, list[str]]:
    """A new job of `size` ranks and the control socket of each."""
    placement = place(running.fabric, size, route)
    nics = [placement.nics[placement.node_of(rank)] for rank in range(size)]
    job = Job.from_dict(job_file.describe(running, placement, job_file.Terms(SLOTS)))
    return job, [str(running.state.socket(nic.name)) for nic in nics]


@contextlib.contextmanager
def joined(running: Running, size: int, route: str) -> Iterator[list[Communicator]]:
    """The communicators of a new job, by rank; they leave at the end."""
    job, sockets = describe(running, size, route)
    members = together(size, lambda rank: Communicator(job, rank, sockets[rank], timeout=BOUND_S))
    failures = [member for member in members if isinstance(member, BaseException)]
    if failures:
        raise failures[0]
    try:
        yield members
    finally:
        together(size, lambda rank: members[rank].close())


def statuses(running: Running) -> list[dict[str, Any]]:
    """STATUS of every device."""
    return [control.query(running.state.socket(device.name)) for device in running.fabric.devices]

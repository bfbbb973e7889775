"""The ranks of a job as threads of this process: what each of them gets, a result or an error, within a bound."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

from fanin import Communicator, FaninError, Job
from fanin_tools.errors import ToolError
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.launch import job_file
from fanin_tools.launch.placement import Placement, place
from fanin_wire.limits import DEFAULT_JOB_SLOTS
from fanin_wire.settings import JobSettings

SLACK_SECONDS = 10.0  # of a thread over the bound of what it waits for
BOUND_SECONDS = 20.0


class RanksHang(ToolError):
    """Ranks that have neither a result nor an error when they must."""

    def __init__(self, ranks: list[int], seconds: float) -> None:
        super().__init__("TIMEOUT", f"ranks {ranks} hang after {seconds:g} s", "look at the logs of the devices")
        self.ranks = ranks


def run_ranks(count: int, act: Callable[[int], Any], seconds: float = BOUND_SECONDS) -> list[Any]:
    """`act(rank)` of all ranks at the same time; what each returned, or the FaninError that it raised. Hanging: some
    have not ended in `seconds`. Any other exception is raised here."""
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
        thread.join(seconds + SLACK_SECONDS)
    if hanging := [rank for rank in range(count) if rank not in outcomes]:
        raise RanksHang(hanging, seconds + SLACK_SECONDS)
    for outcome in outcomes.values():
        if isinstance(outcome, BaseException) and not isinstance(outcome, FaninError):
            raise outcome
    return [outcomes[rank] for rank in range(count)]


def describe(running: Running, size: int, route: str, slots: int = DEFAULT_JOB_SLOTS) -> tuple[Placement, Job]:
    """A new job of `size` ranks, spread over the nodes as `fanin run` does it."""
    placement = place(running.fabric, size, route)
    return placement, Job.from_dict(job_file.describe(running, placement, JobSettings(slots)))


def socket_of(running: Running, placement: Placement, rank: int) -> str:
    """Control socket of the NIC of a rank."""
    return str(running.state.socket(placement.nics[placement.node_of(rank)].name))


@contextlib.contextmanager
def job(running: Running, size: int, route: str, **parts: Any) -> Iterator[list[Communicator]]:
    """The communicators of a new job, by rank; they leave at the end, whatever has become of the job."""
    placement, description = describe(running, size, route, **parts)

    def join(rank: int) -> Communicator:
        return Communicator(description, rank, socket_of(running, placement, rank), timeout=BOUND_SECONDS)

    members = run_ranks(size, join)
    refusals = [member for member in members if isinstance(member, FaninError)]
    if refusals:
        raise refusals[0]
    try:
        yield members
    finally:
        run_ranks(size, lambda rank: members[rank].close())

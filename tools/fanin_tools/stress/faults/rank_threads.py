"""The ranks of a job as threads of this process, each of which must have a result or an error in time."""

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

SLACK_SECONDS = 10.0  # beyond the time limit: then a thread hangs
BOUND_SECONDS = 20.0


class RanksHang(ToolError):
    """Ranks without result or error at the time limit."""

    def __init__(self, ranks: list[int], seconds: float) -> None:
        super().__init__("TIMEOUT", f"ranks {ranks} hang after {seconds:g} s", "look at the logs of the devices")
        self.ranks = ranks


def run_ranks(count: int, act: Callable[[int], Any], seconds: float = BOUND_SECONDS) -> list[Any]:
    """Call `act(rank)` for all ranks at once, and return each result, or the FaninError that it raised. seconds: the
    time limit. Raises RanksHang if ranks have not ended by then, and any other exception of a rank."""
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


def describe(
    running: Running, size: int, route: str, slots: int = DEFAULT_JOB_SLOTS, **settings: Any
) -> tuple[Placement, Job]:
    """A new job of `size` ranks, placed as by `fanin run`; `settings`: further ones of `JobSettings`."""
    placement = place(running.fabric, size, route)
    return placement, Job.from_dict(job_file.describe(running, placement, JobSettings(slots, **settings)))


def socket_of(running: Running, placement: Placement, rank: int) -> str:
    """Control socket of the rank's NIC."""
    return str(running.state.socket(placement.nics[placement.node_of(rank)].name))


@contextlib.contextmanager
def job(running: Running, size: int, route: str, **parts: Any) -> Iterator[list[Communicator]]:
    """The communicators of a new job, by rank. They leave it at the end of the block."""
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

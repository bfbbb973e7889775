"""Jobs over chosen nodes, and their ranks' errors."""

from collections.abc import Sequence
from typing import Any

from fanin import FaninError, Job
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.fabric.tree import Tree
from fanin_tools.launch import job_file
from fanin_tools.launch.placement import Placement
from fanin_tools.launch.uplinks import Uplinks, uplinks_of
from fanin_tools.stress.faults.rank_threads import describe, job, run_ranks, socket_of
from fanin_wire.settings import JobSettings

__all__ = ["across", "describe", "errors_of", "job", "placed", "run_ranks", "socket_of"]


def across(running: Running, nodes: Sequence[int], route: str, slots: int = 8) -> tuple[Job, list[str]]:
    """A new job of one rank on each of `nodes` (numbers of NICs), and each rank's control socket."""
    nics = tuple(running.fabric.nics[node] for node in nodes)
    uplinks = uplinks_of(Tree(running.fabric), nics) if route == "tree" else None
    placement = Placement(route, nics, tuple((rank,) for rank in range(len(nics))), uplinks or (Uplinks(),) * len(nics))
    described = Job.from_dict(job_file.describe(running, placement, JobSettings(slots)))
    return described, [str(running.state.socket(nic.name)) for nic in nics]


def placed(running: Running, size: int, route: str, slots: int) -> tuple[Job, list[str]]:
    """A new job of `size` ranks, spread as by `fanin run`, and each rank's control socket."""
    placement, described = describe(running, size, route, slots)
    return described, [socket_of(running, placement, rank) for rank in range(size)]


def errors_of(outcomes: Sequence[Any]) -> list[str]:
    """Exception name of each rank; "no error" for a result."""
    return [type(outcome).__name__ if isinstance(outcome, FaninError) else "no error" for outcome in outcomes]

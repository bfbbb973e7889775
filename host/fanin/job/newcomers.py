"""Processes that join a running job: where they are, and the ranks that they get."""

from collections.abc import Iterable, Sequence
from typing import Any

from fanin.driver import ffi
from fanin.errors import InvalidRequest
from fanin.job.description import place_of
from fanin.job.node import JobNode


def newcomers_c(nodes: Iterable[JobNode]) -> Any:
    """An array of struct fanin_newcomer, one for each rank of each node. InvalidRequest if they are no nodes."""
    rows = []
    for node in nodes:
        if not isinstance(node, JobNode):
            remedy = "Give each as JobNode(address, ranks, switches, ring), with the ranks that it gets."
            raise InvalidRequest(f"newcomers are JobNodes, not {node!r}", remedy=remedy)
        rows += [(rank, place_of(node)) for rank in node.ranks]
    try:
        return ffi.new("struct fanin_newcomer[]", [{"rank": rank, "place": place} for rank, place in rows])
    except (OverflowError, TypeError) as error:
        raise InvalidRequest(f"the rank of a newcomer: {error}", remedy="Give whole numbers from 0 on.") from None


def take_places(spares: Sequence[JobNode], present: Iterable[int], size: int) -> list[JobNode]:
    """Give spares the ranks that are not `present` of a job of `size` ranks, the first spare the lowest.

    Ranks for which no spare is left are left out, and those after them move up.
    """
    present = sorted(present)
    lost = [rank for rank in range(size) if rank not in present][: len(spares)]
    kept = sorted([*present, *lost])
    return [
        JobNode(spare.address, (kept.index(rank),), spare.switches, spare.ring)
        for spare, rank in zip(spares, lost, strict=False)
    ]

"""Naming: the ranks that a completion is about, in words."""

from __future__ import annotations

from fanin.job import MAX_NAMED, Job
from fanin.verbs import WC
from fanin.verbs.wc import RANKS
from fanin_wire.abi import Status


def named(job: Job, rank: int, ranks: tuple[int, ...], completion: WC) -> str:
    """What to add to a message of `rank`: the `ranks` that a completion names; "" if none.

    Other nodes can not name a rank, only its node, so what they say is about somebody there.
    """
    others = tuple(other for other in ranks if other != rank)
    if not ranks:
        return ""
    if completion.status == Status["OP_MISMATCH"]:
        return f"; noticed at: {job.names(ranks)}"
    if completion.missing_kind == RANKS or len(ranks) == 1:
        return f"; missing: {job.names(others)}" if others else "; it was this rank that was waited for"
    return f"; missing on: {node_names(job, others or ranks)}"


def node_names(job: Job, ranks: tuple[int, ...]) -> str:
    """The nodes of ranks, with those of their ranks."""
    by_node: dict[str, list[int]] = {}
    for rank in ranks[:MAX_NAMED]:
        by_node.setdefault(job.nodes[job.node_of(rank)].address, []).append(rank)
    names = [
        f"node {address} ({'rank' if len(there) == 1 else 'ranks'} {', '.join(map(str, there))})"
        for address, there in by_node.items()
    ]
    more = [f"{len(ranks) - MAX_NAMED} more ranks"] if len(ranks) > MAX_NAMED else []
    return ", ".join(names + more)

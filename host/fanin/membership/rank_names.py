"""Naming: the ranks that a completion is about, from its bits to words."""

from __future__ import annotations

from fanin.job import Job
from fanin.verbs.wc import RANKS

MAX_NAMED = 8  # ranks of a message for people


def named(job: Job, rank: int, ranks: tuple[int, ...], kind: int, mismatch: bool = False) -> str:
    """The end of a message of `rank`: the `ranks` that bits of a `kind` name; "" if none.

    Other nodes can not name a rank, only its node.
    """
    others = tuple(other for other in ranks if other != rank)
    if not ranks:
        return ""
    if mismatch:
        return f"; noticed at: {rank_names(job, ranks)}"
    if kind == RANKS or len(ranks) == 1:
        return f"; missing: {rank_names(job, others)}" if others else "; it was this rank that was waited for"
    return f"; missing on: {node_names(job, others or ranks)}"


def rank_names(job: Job, ranks: tuple[int, ...]) -> str:
    """Ranks with their nodes, for people."""
    names = [f"rank {rank} (node {job.nodes[job.node_of(rank)].address})" for rank in ranks[:MAX_NAMED]]
    more = [f"{len(ranks) - MAX_NAMED} more"] if len(ranks) > MAX_NAMED else []
    return ", ".join(names + more)


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

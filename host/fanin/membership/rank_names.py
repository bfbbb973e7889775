"""Naming: the ranks that a completion is about, from its bits to words."""

from __future__ import annotations

from fanin.job import Job
from fanin.verbs import WC
from fanin.verbs.wc import NODES, RANKS
from fanin_wire.abi import Status

MAX_NAMED = 8  # ranks of a message for people


def missing_ranks(job: Job, rank: int, members: list[int], kind: int) -> tuple[int, ...]:
    """Ranks that a completion at `rank` names by bits, whose kind it says: 0 ranks of its own node; k children of the
    k-th device above its node; in a ring, 1 the nodes of the ring."""
    index = job.node_of(rank)
    if kind == RANKS:
        local = job.nodes[index].ranks
        return tuple(local[bit] for bit in members if bit < len(local))
    groups = _groups(job, index, kind)
    nodes = [node for bit in members if bit < len(groups) for node in groups[bit]]
    return tuple(rank for node in nodes for rank in job.nodes[node].ranks)


def _groups(job: Job, index: int, kind: int) -> list[list[int]]:
    """The nodes that each bit of a bitmap of a kind stands for, as seen from node `index`."""
    ring = job.ring_of(index)
    if ring and kind == NODES:
        return [[node] for node in ring]
    level = kind - (2 if ring else 1)
    path = job.tree.paths[index] if job.chosen_route == "tree" else ()
    return [child.nodes for child in job.tree.children(path[level])] if level < len(path) else []


def named(job: Job, rank: int, ranks: tuple[int, ...], completion: WC) -> str:
    """The end of a message of `rank`: the `ranks` that a completion names; "" if none.

    Other nodes can not name a rank, only its node.
    """
    others = tuple(other for other in ranks if other != rank)
    if not ranks:
        return ""
    if completion.status == Status["OP_MISMATCH"]:
        return f"; noticed at: {rank_names(job, ranks)}"
    if completion.missing_kind == RANKS or len(ranks) == 1:
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

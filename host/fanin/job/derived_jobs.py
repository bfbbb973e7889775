"""Jobs made from a job: the ranks of a split, a duplicate, the stream of a persistent request.

Every rank computes the same description from the same data, so it needs no messages.
"""

from __future__ import annotations

import dataclasses
import hashlib
import operator
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from fanin.errors import InvalidRequest
from fanin.job import Job, JobNode

LEAST_SLOTS = 8


def derived(job: Job, number: int, color: int, members: Sequence[int], slots: int | None = None) -> Job:
    """The job of some ranks of `job`, renumbered in the order of `members`.

    Its id and key follow from those of `job`, the running `number` of the call that makes it, and `color`.
    """
    jid, key = identity(job, f"{number} {color}")
    return _of_members(job, jid, key, members, slots=slots or job.slots)


def remaining(job: Job, number: int, members: Sequence[int], ring: bool) -> Job:
    """The job of the ranks that are left of `job` after its `number`th loss, renumbered in their order. ring: a switch
    is lost, so the way is from NIC to NIC.

    Its id and key follow from the members, too: ranks that believe in different ones never meet.
    """
    jid, key = identity(job, f"remaining {number} {list(members)}")
    return _of_members(job, jid, key, members, **({"route": "ring"} if ring else {}))


def _of_members(job: Job, jid: int, key: int, members: Sequence[int], **changes: Any) -> Job:
    rank_of = {old: new for new, old in enumerate(members)}
    nodes = [(node, sorted(rank_of[rank] for rank in node.ranks if rank in rank_of)) for node in job.nodes]
    present = [(node, tuple(ranks)) for node, ranks in nodes if ranks]
    in_ring = Counter(node.ring for node, _ in present)
    return dataclasses.replace(
        job,
        jid=jid,
        key=key,
        **changes,
        nodes=tuple(
            JobNode(node.address, ranks, node.switches, node.ring if in_ring[node.ring] > 1 else None)
            for node, ranks in present
        ),
    )


def identity(job: Job, name: str) -> tuple[int, int]:
    """Id and key of the job called `name` among those that are made from `job`."""
    digest = hashlib.sha256(f"{job.jid} {job.key} {name}".encode()).digest()
    return int.from_bytes(digest[:4], "big") or 1, int.from_bytes(digest[4:8], "big")


def split_row(color: int | None, key: int) -> np.ndarray:
    """The row that a rank sends to the others in a split: (takes part, color, key)."""
    try:
        numbers = [0 if color is None else operator.index(color), operator.index(key)]
        return np.array([color is not None, *numbers], np.int64)
    except (TypeError, OverflowError):
        raise InvalidRequest(
            f"color and key are {color!r} and {key!r}, not whole numbers of 64 bits",
            remedy="Give whole numbers; color=None for a rank that is to be in no group.",
        ) from None


def split_members(rows: np.ndarray, rank: int) -> tuple[int, ...]:
    """The ranks of the group of `rank`, in their new order. rows: of each rank (takes part, color, key)."""
    takes_part, colors, keys = rows[:, 0], rows[:, 1], rows[:, 2]
    same = np.flatnonzero((takes_part == 1) & (colors == colors[rank]))
    return tuple(int(member) for member in sorted(same, key=lambda member: (keys[member], member)))


def slots_for(job: Job, positions: int) -> int:
    """Seg buffers of a stream that never has more than `positions` under way: twice as many, as far as the job's."""
    return min(job.slots, max(LEAST_SLOTS, 1 << (2 * positions - 1).bit_length()))

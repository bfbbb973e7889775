"""A plan carried out on arrays, without a network: it shows whether the plan is right.

A copy from memory that holds nothing yet fails, so a complete rehearsal proves that each stage copies the right bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from fanin_cluster.handoff.plan import Copy, Plan


class RehearsalFailed(Exception):
    """A copy from bytes that its source does not hold."""


class Node:
    """The memory of the GPUs of a node: bytes[gpu, offset], and which of them hold data."""

    def __init__(self, gpus: int, size: int) -> None:
        self.bytes = np.zeros((gpus, size), np.uint8)
        self.valid = np.zeros((gpus, size), np.bool_)

    def fill(self, gpu: int, data: NDArray[np.uint8]) -> None:
        self.bytes[gpu] = data
        self.valid[gpu] = True

    def take(self, source: Node, copy: Copy) -> None:
        """Carry out a copy from a GPU of `source` to one of this node. Raises RehearsalFailed."""
        part = slice(copy.offset, copy.offset + copy.length)
        if not source.valid[copy.source, part].all():
            raise RehearsalFailed(f"GPU {copy.source} does not hold all of {copy}")
        self.bytes[copy.target, part] = source.bytes[copy.source, part]
        self.valid[copy.target, part] = True


class Rehearsal:
    """Two nodes, and how often each byte has crossed the network between them."""

    def __init__(self, plan: Plan, data: NDArray[np.uint8]) -> None:
        self.plan = plan
        self.first = Node(len(plan.first_gpus), plan.size)
        self.second = Node(len(plan.second_gpus), plan.size)
        self.crossings = np.zeros(plan.size, np.int64)
        for gpu in range(len(plan.first_gpus)) if plan.holder is None else [plan.holder]:
            self.first.fill(gpu, data)

    def spread(self) -> None:
        for copy in self.plan.spread:
            self.first.take(self.first, copy)

    def send(self, failing: Mapping[int, int] | None = None) -> dict[int, list[tuple[int, int]]]:
        """Stage over the network. Of each stripe, a link in `failing` carries only so many first bytes.

        Returns: of each failing link the ranges (offset, length) that have arrived.
        """
        arriving = failing or {}
        arrived: dict[int, list[tuple[int, int]]] = {link: [] for link in arriving}
        for link, copy in self.plan.send:
            if link in arriving:
                copy = Copy(copy.source, copy.target, copy.offset, min(copy.length, arriving[link]))
                arrived[link].append((copy.offset, copy.length))
            self.second.take(self.first, copy)
            self.crossings[copy.offset : copy.offset + copy.length] += 1
        return arrived

    def broadcast(self, work: Sequence[Sequence[tuple[int, int]]], seen: Mapping[int, Sequence[int]]) -> None:
        """Stage over the network as broadcasts; it is the last stage.

        Args:
            work: of each link, its chunks (offset, length).
            seen: of each failing link, how many of them each GPU of node 2 receives.
        """
        for link, chunks in enumerate(work):
            source = self.plan.links[link].first
            for gpu in range(len(self.plan.second_gpus)):
                for offset, length in chunks[: seen[link][gpu]] if link in seen else chunks:
                    self.second.take(self.first, Copy(source, gpu, offset, length))

    def finish(self) -> None:
        for copy in [*self.plan.diffuse, *self.plan.collect]:
            self.second.take(self.second, copy)


def rehearse(plan: Plan, data: NDArray[np.uint8]) -> Rehearsal:
    """Carry out a whole plan. `data` has `plan.size` bytes."""
    rehearsal = Rehearsal(plan, data)
    rehearsal.spread()
    rehearsal.send()
    rehearsal.finish()
    return rehearsal

"""What a plan costs, and a plan carried out on arrays without a network, which says whether it is right.

The most loaded part sets the time of a stage: a link in the network stage, the output or input of a GPU within a node.
The document runs the stages in sequence. In c chunks they overlap: all stages once for the first chunk, and then the
slowest stage c - 1 times. Latency, PCIe and paths that cross the processors are not counted.

A copy from memory that holds nothing yet fails, so a complete rehearsal proves that each stage copies the right bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fanin_cluster.handoff.plan import Copy, Plan

STAGES = ("spread", "send", "diffuse", "collect")
INSIDE_RATE = 200e9  # bytes per second of a GPU to the others of its node, in each direction; assumed: no source has it
STEP = 100e-6  # seconds that one more chunk costs: acknowledgements of its WRITEs, and a message; not measured
MAX_CHUNKS = 64


@dataclass(frozen=True)
class Cost:
    """bytes and seconds: of each stage. link_bytes: of each link, over the network."""

    bytes: dict[str, int]
    link_bytes: tuple[int, ...]
    seconds: dict[str, float]

    @property
    def sequential(self) -> float:
        """Seconds, one stage after the other."""
        return sum(self.seconds.values())

    def pipelined(self, chunks: int) -> float:
        """Seconds when chunks follow each other through the stages."""
        return (self.sequential + (chunks - 1) * max(self.seconds.values())) / chunks


def cost(plan: Plan, inside_rate: float = INSIDE_RATE) -> Cost:
    """The bytes and the predicted time of a plan."""
    link_bytes = [0] * len(plan.links)
    for link, copy in plan.send:
        link_bytes[link] += copy.length
    inside = {"spread": plan.spread, "diffuse": plan.diffuse, "collect": plan.collect}
    seconds = {stage: _busiest(copies) / inside_rate for stage, copies in inside.items()}
    seconds["send"] = max((count / link.rate for count, link in zip(link_bytes, plan.links, strict=True)), default=0.0)
    sizes = {stage: sum(copy.length for copy in copies) for stage, copies in inside.items()}
    sizes["send"] = sum(link_bytes)
    return Cost(
        {stage: sizes[stage] for stage in STAGES}, tuple(link_bytes), {stage: seconds[stage] for stage in STAGES}
    )


def chosen_chunks(plan: Plan, inside_rate: float = INSIDE_RATE, step: float = STEP) -> int:
    """The number of chunks, a power of two, with the least predicted time if each costs `step` seconds.

    No chunk of a stripe is shorter than the granule. 1: the stages one after the other.
    """
    found = cost(plan, inside_rate)
    shortest = min((each.length for each in plan.stripes if each.length), default=0) // plan.granule
    choices = [1 << power for power in range(max(1, min(shortest, MAX_CHUNKS).bit_length()))]
    return min(choices, key=lambda chunks: (found.pipelined(chunks) + chunks * step, chunks))


def naive_seconds(plan: Plan) -> float:
    """Seconds of the network if every GPU of node 2 gets its own copy, over all links of the plan."""
    return plan.size * len(plan.second_gpus) / sum(link.rate for link in plan.links)


def _busiest(copies: list[Copy]) -> int:
    """Bytes of the most loaded direction of a GPU."""
    load: Counter[tuple[str, int]] = Counter()
    for copy in copies:
        load["out", copy.source] += copy.length
        load["in", copy.target] += copy.length
    return max(load.values(), default=0)


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

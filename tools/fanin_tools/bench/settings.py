"""What is measured: the settings, the sizes, how often, and how times are summed up."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

RANKS = 4
SIZES = (8, 4 << 10, 64 << 10, 256 << 10, 2 << 20, 16 << 20, 64 << 20)  # bytes of f32
ROUNDS = 3  # ours, then the peer, then ours again: what else the machine does hits both
VOLUME = 32 << 20  # bytes that one measurement moves, between the least and the most repetitions
REPETITIONS = (3, 200)


@dataclass(frozen=True)
class Setting:
    """A line of the table. route: of ours; transport: Open MPI's, that goes the comparable way."""

    title: str
    route: str
    transport: str


SETTINGS = (
    Setting("1 node, 4 ranks", "local", "sm"),
    Setting("4 nodes, switch", "tree", "tcp"),
    Setting("4 nodes, ring", "ring", "tcp"),
)


def repetitions(size: int) -> int:
    """How often a message of `size` bytes is reduced in one round."""
    least, most = REPETITIONS
    return max(least, min(most, VOLUME // size))


def slowest_rank(times: list[list[int]]) -> list[int]:
    """From times[rank][repetition] the time of the slowest rank in each repetition."""
    return [max(column) for column in zip(*times, strict=True)]


def median_us(nanoseconds: list[int]) -> float:
    """Median in microseconds."""
    return statistics.median(nanoseconds) / 1000

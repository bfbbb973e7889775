"""Queues and jobs of the model device."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Self

import numpy as np


@dataclass
class Queue:
    """Its place, what it has posted, and what could not be completed yet."""

    client: int
    qp: int
    sq: int
    cq: int
    job: Job | None = None
    ranks: int = 0
    position: int = 0  # of the next message
    overrun: bool = False
    posted: deque[np.void] = field(default_factory=deque)
    arrivals: deque[float] = field(default_factory=deque)
    completions: deque[np.ndarray] = field(default_factory=deque)


@dataclass
class Job:
    """Of this node; `joined` has the queue and the tag of each rank bitmap that has joined."""

    jid: int
    key: int
    mask: int
    chunk: int
    slots: int
    flags: int
    digest: bytes
    joined: dict[int, tuple[Queue, int]] = field(default_factory=dict)
    left: int = 0
    failure: tuple[int, int] | None = None  # status, missing ranks

    @classmethod
    def of(cls, request: np.void, digest: bytes) -> Self:
        """The job of its first JOIN."""
        return cls(*(int(request[name]) for name in ("jid", "key", "rank_mask", "chunk", "slots", "flags")), digest)

    def missing(self) -> int:
        """Ranks that have not joined."""
        return self.mask & ~(sum(self.joined) | self.left)

    def fail(self, status: int, missing: int = 0) -> None:
        """The first failure counts."""
        self.failure = self.failure or (int(status), missing)

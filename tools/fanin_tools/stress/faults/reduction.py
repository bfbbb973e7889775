"""What the ranks of a round do: reduce, while the fault waits for them to begin."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np

from fanin import Communicator

REPEAT = 2
PERIOD = 4093  # of the data, a prime: no segment is like another


class ReductionProgress:
    """The work of all ranks of a round, as the fault sees it."""

    def __init__(self) -> None:
        self._begun, self._over = threading.Event(), threading.Event()

    def begin(self) -> None:
        """A rank is about to post its first request."""
        self._begun.set()

    def do(self, act: Callable[[], int]) -> int:
        """`act` of a rank, to its end, whatever that is."""
        try:
            return act()
        finally:
            self._over.set()
            self._begun.set()  # if it could not even join: the fault comes all the same

    def wait_until_begun(self) -> None:
        """Of the first rank."""
        self._begun.wait()

    @property
    def is_under_way(self) -> bool:
        """Whether ranks have begun, and none is done."""
        return self._begun.is_set() and not self._over.is_set()


def reduce(member: Communicator, elements: int, work: ReductionProgress, zeros: int | None = None) -> int:
    """Some allreduces; how many of them were wrong. zeros: a rank that brings other data, ones."""
    data = np.arange(elements, dtype="i4") % PERIOD
    shares = [rank + 1 for rank in range(member.size) if rank != zeros]
    expected = (data * sum(shares) + (zeros is not None)).astype("f4")
    array = (data * (member.rank + 1)).astype("f4")
    result = np.empty_like(array)
    work.begin()
    return sum(int(not np.array_equal(member.allreduce(array, out=result), expected)) for _ in range(REPEAT))

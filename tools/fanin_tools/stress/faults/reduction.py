"""The reductions of a round of real faults, and their progress, for which the fault waits."""

import threading
from collections.abc import Callable

import numpy as np

from fanin import Communicator

REPEAT = 2
PERIOD = 4093  # of the data; a prime: no two segments are equal


class ReductionProgress:
    """How far the ranks of a round are."""

    def __init__(self) -> None:
        self._begun, self._over = threading.Event(), threading.Event()

    def begin(self) -> None:
        """Before a rank's first request."""
        self._begun.set()

    def do(self, act: Callable[[], int]) -> int:
        """Call `act` for a rank and note its end."""
        try:
            return act()
        finally:
            self._over.set()
            self._begun.set()  # the fault does not wait for a rank that could not join

    def wait_until_begun(self) -> None:
        """Until the first rank has begun."""
        self._begun.wait()

    @property
    def is_under_way(self) -> bool:
        """Ranks have begun, and none has ended."""
        return self._begun.is_set() and not self._over.is_set()


def reduce(member: Communicator, elements: int, work: ReductionProgress, zeros: int | None = None) -> int:
    """REPEAT times; the number of wrong results. zeros: a rank that contributes only ones."""
    data = np.arange(elements, dtype="i4") % PERIOD
    shares = [rank + 1 for rank in range(member.size) if rank != zeros]
    expected = (data * sum(shares) + (zeros is not None)).astype("f4")
    array = (data * (member.rank + 1)).astype("f4")
    result = np.empty_like(array)
    work.begin()
    return sum(int(not np.array_equal(member.allreduce(array, out=result), expected)) for _ in range(REPEAT))

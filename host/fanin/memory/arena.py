"""Which bytes of a region are free: pieces of any length are taken, come back, and are joined with their neighbours.

Record 0105 (docs/decisions) says why small tensors of PyTorch share regions.
"""

from bisect import bisect

ALIGNMENT = 64  # bytes of a line of the cache, to which torch aligns its memory, too


class Arena:
    """`length` bytes, all free at first. It counts, and touches no memory."""

    def __init__(self, length: int) -> None:
        self._all_free = [(0, aligned(length))]
        self._free = self._all_free.copy()  # (start, end) in order; between two of them something is taken

    @property
    def is_free(self) -> bool:
        """Whether nothing is taken."""
        return self._free == self._all_free

    def take(self, length: int) -> int | None:
        """Where a piece begins: the first place that is long enough. None: there is no such place."""
        length = aligned(length)
        for number, (start, end) in enumerate(self._free):
            if start + length == end:
                del self._free[number]
                return start
            if start + length < end:
                self._free[number] = (start + length, end)
                return start
        return None

    def give_back(self, start: int, length: int) -> None:
        """A piece that was taken."""
        end = start + aligned(length)
        place = bisect(self._free, (start, end))
        if place < len(self._free) and self._free[place][0] == end:
            _, end = self._free.pop(place)
        if place and self._free[place - 1][1] == start:
            place -= 1
            start, _ = self._free.pop(place)
        self._free.insert(place, (start, end))


def aligned(length: int) -> int:
    """The bytes that a piece of this length takes."""
    return -(-length // ALIGNMENT) * ALIGNMENT

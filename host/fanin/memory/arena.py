"""Allocation of bytes of a region: first fit; returned pieces are joined with their neighbours.

Record 0105 (docs/decisions) says why small tensors of PyTorch share regions.
"""

from bisect import bisect

ALIGNMENT = 64  # bytes of a cache line; torch aligns its memory to it, too


class Arena:
    """`length` bytes, all free at first. It only counts, and touches no memory."""

    def __init__(self, length: int) -> None:
        self._all_free = [(0, aligned(length))]
        self._free = self._all_free.copy()  # (start, end) in order; between two of them something is taken

    @property
    def is_free(self) -> bool:
        return self._free == self._all_free

    def take(self, length: int) -> int | None:
        """Start of a piece at the first free place that is long enough; None: there is none."""
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
        end = start + aligned(length)
        place = bisect(self._free, (start, end))
        if place < len(self._free) and self._free[place][0] == end:
            _, end = self._free.pop(place)
        if place and self._free[place - 1][1] == start:
            place -= 1
            start, _ = self._free.pop(place)
        self._free.insert(place, (start, end))


def aligned(length: int) -> int:
    return -(-length // ALIGNMENT) * ALIGNMENT

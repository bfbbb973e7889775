"""Ranges of bytes: cutting, and the overlap of two sets."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True)
class Share:
    """A range of the data. `owner`: the index of a link, or of a GPU."""

    owner: int
    offset: int
    length: int

    @property
    def end(self) -> int:
        return self.offset + self.length


def cut(offset: int, length: int, weights: Sequence[int], granule: int = 1) -> list[tuple[int, int]]:
    """Cut a range into parts in proportion to weights: (offset, length) of each; a part may be empty.

    Parts begin at multiples of `granule` from the start of the data, so that no element is cut.
    """
    total = sum(weights)
    bounds, sum_so_far = [offset], 0
    for weight in weights[:-1]:
        sum_so_far += weight
        bound = offset + length * sum_so_far // total
        bounds.append(min(max(bound - bound % granule, bounds[-1]), offset + length))
    bounds.append(offset + length)
    return [(start, end - start) for start, end in pairwise(bounds)]


def overlaps(held: Iterable[Share], wanted: Iterable[Share]) -> list[tuple[int, int, int, int]]:
    """(holder, owner, offset, length) of each part of the wanted ranges that is held."""
    found = []
    for want in wanted:
        for have in held:
            start, end = max(want.offset, have.offset), min(want.end, have.end)
            if start < end:
                found.append((have.owner, want.owner, start, end - start))
    return found


def missing(wanted: Share, arrived: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The parts (offset, length) of a range that have not arrived, in order."""
    gaps, position = [], wanted.offset
    for start, length in sorted(arrived):
        start, end = max(start, wanted.offset), min(start + length, wanted.end)
        if start > position:
            gaps.append((position, min(start, wanted.end) - position))
        position = max(position, end)
    if position < wanted.end:
        gaps.append((position, wanted.end - position))
    return gaps


def joined(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same bytes as (offset, length) in order; adjacent and overlapping ranges are merged."""
    found: list[tuple[int, int]] = []
    for start, length in sorted(ranges):
        if found and start <= sum(found[-1]):
            first, count = found[-1]
            found[-1] = first, max(count, start + length - first)
        else:
            found.append((start, length))
    return found

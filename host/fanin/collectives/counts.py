"""How an array is divided among the ranks: equal parts by its shape, uneven ones by counts of elements."""

import math
import operator
from collections.abc import Sequence

import numpy as np

from fanin.errors import InvalidRequest

Counts = Sequence[int] | np.ndarray
Shape = tuple[int, ...]
Blocks = tuple[Shape, Shape, tuple[int, ...]]  # shapes of the rank's own block and of the whole; bytes of each block


def equal_blocks(shape: Shape, size: int, itemsize: int, is_whole: bool) -> Blocks:
    """Equal blocks. shape: of the whole, or of one of them."""
    block = _equal_part(shape, size) if is_whole else shape
    return block, (size, *block), (math.prod(block) * itemsize,) * size


def _equal_part(shape: Shape, size: int) -> Shape:
    """A slice of a flat array; of any other, array[rank]."""
    if len(shape) == 1:
        count, rest = divmod(shape[0], size)
        if rest:
            raise InvalidRequest(
                f"{shape[0]} elements can not be divided equally among {size} ranks",
                remedy="Give counts, the elements of each rank's part, or pad the array.",
            )
        return (count,)
    if not shape or shape[0] != size:
        raise InvalidRequest(
            f"an array of shape {shape} does not have one row for each of {size} ranks",
            remedy=f"Give a flat array, or one of shape ({size}, ...): array.reshape({size}, -1).",
        )
    return shape[1:]


def uneven_blocks(
    counts: Counts | None, size: int, rank: int, itemsize: int, own: int | None = None, total: int | None = None
) -> Blocks:
    """Flat blocks. own, total: elements that the rank's own and the whole must have; None: any number."""
    elements = checked_counts(counts, size, total)
    if own is not None and elements[rank] != own:
        raise InvalidRequest(
            f"counts give rank {rank} {elements[rank]} elements, but its array has {own}",
            remedy="Give every rank the same counts, and arrays of these sizes.",
        )
    return (elements[rank],), (sum(elements),), tuple(count * itemsize for count in elements)


def checked_counts(counts: Counts | None, size: int, total: int | None = None) -> tuple[int, ...]:
    """Elements of each rank's part. InvalidRequest unless there is one for each rank, and they add up to `total`."""
    if counts is None:
        raise InvalidRequest("counts are missing: the elements of each rank's part", remedy="Give one for each rank.")
    try:
        elements = tuple(operator.index(count) for count in counts)
    except TypeError:
        raise InvalidRequest(
            f"counts are {counts!r}, not whole numbers", remedy=f"Give a sequence of {size} numbers, one for each rank."
        ) from None
    if len(elements) != size or min(elements) < 0:
        raise InvalidRequest(
            f"counts are {list(elements)}",
            remedy=f"Give {size} numbers from 0 on, one for each rank: the elements of its part.",
        )
    if total is not None and sum(elements) != total:
        raise InvalidRequest(
            f"counts add up to {sum(elements)} elements, but the array has {total}",
            remedy="Give the whole array, with the parts in rank order and no gaps.",
        )
    return elements

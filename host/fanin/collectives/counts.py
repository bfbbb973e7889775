"""How an array is divided among the ranks: equal parts by its shape, uneven ones by counts of elements."""

from __future__ import annotations

import operator
from collections.abc import Sequence

import numpy as np

from fanin.errors import InvalidRequest


def equal_part(array: np.ndarray, size: int) -> tuple[int, ...]:
    """Shape of one of `size` equal parts: of a flat array a slice; of any other, array[rank], one row for each rank."""
    if array.ndim == 1:
        count, rest = divmod(array.size, size)
        if rest:
            raise InvalidRequest(
                f"{array.size} elements can not be divided equally among {size} ranks",
                remedy="Give counts, the elements of each rank's part, or pad the array.",
            )
        return (count,)
    if array.ndim == 0 or array.shape[0] != size:
        raise InvalidRequest(
            f"an array of shape {array.shape} has not one row for each of {size} ranks",
            remedy=f"Give a flat array, or one of shape ({size}, ...): array.reshape({size}, -1).",
        )
    return array.shape[1:]


def checked_counts(counts: Sequence[int] | np.ndarray, size: int, total: int | None = None) -> tuple[int, ...]:
    """Elements of each rank's part; InvalidRequest if they are not one for each rank, or are not `total` together."""
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
            f"counts add up to {sum(elements)} elements, the array has {total}",
            remedy="Give the whole array, with the parts in rank order and no gaps.",
        )
    return elements

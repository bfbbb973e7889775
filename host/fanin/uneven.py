"""The arguments of the collectives that move parts of different sizes.

Sizes are counts of elements. All ranks must know all of them, since messages are cut by them: where they are not given
on every rank, they are exchanged first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fanin.buffers import dtype_of, readable, room, writable
from fanin.call import Call, Deferred, Group, require_root
from fanin.errors import InvalidRequest
from fanin.movements import ALLGATHER, GATHER, SCATTER, allgather, broadcast
from fanin.parts import checked_counts


def allgatherv(
    group: Group,
    array: Any,
    out: Any = None,
    counts: Sequence[int] | None = None,
    timeout: float | None = None,
    fence: bool = False,
) -> Call | Deferred:
    """Give every rank the arrays of all, one after the other, as a flat array.

    counts: elements of each rank's array; give them on every rank, or on none. In place where `array` is the rank's own
    part of `out`.
    """
    source = readable(array)

    def call(counts: Sequence[int] | np.ndarray) -> Call:
        elements = _with_own(counts, group, source.size)
        destination, result = room(out, (sum(elements),), source.dtype)
        sizes = _sizes(elements, source.dtype)
        return Call("allgatherv", ALLGATHER, sizes, source, destination, result, timeout=timeout, fence=fence)

    return call(counts) if counts is not None else _exchanged(group, "allgatherv", source.size, call, timeout, fence)


def gatherv(
    group: Group,
    array: Any,
    out: Any = None,
    root: int = 0,
    counts: Sequence[int] | None = None,
    timeout: float | None = None,
    fence: bool = False,
) -> Call | Deferred:
    """Give rank `root` the arrays of all, one after the other, as a flat array; the others None.

    counts: elements of each rank's array; give them on every rank, or on none. out: looked at on the root only.
    """
    require_root(group, root)
    source = readable(array)

    def call(counts: Sequence[int] | np.ndarray) -> Call:
        elements = _with_own(counts, group, source.size)
        sizes = _sizes(elements, source.dtype)
        made = Call("gatherv", GATHER, sizes, source, root=root, timeout=timeout, fence=fence)
        if group.rank == root:
            made.destination, made.result = room(out, (sum(elements),), source.dtype)
        return made

    return call(counts) if counts is not None else _exchanged(group, "gatherv", source.size, call, timeout, fence)


def scatterv(
    group: Group,
    array: Any = None,
    counts: Sequence[int] | None = None,
    out: Any = None,
    root: int = 0,
    dtype: Any = None,
    agreed: bool = False,
    timeout: float | None = None,
    fence: bool = False,
) -> Call | Deferred:
    """Give each rank its part of `array` of rank `root`, as a flat array; the parts lie there one after the other.

    array: looked at on the root only. The other ranks say what they expect: `out`, or `dtype`. counts: elements of each
    part. They are the root's, and are sent to the others first; unless all ranks give them and `agreed`.
    """
    require_root(group, root)
    source = readable(array, "the array of the root") if group.rank == root else None
    kind = source.dtype if source is not None else _expected_type(out, dtype)
    if counts is None and (agreed or source is not None):
        raise InvalidRequest("counts are missing: the elements of each rank's part", remedy="Give one for each rank.")

    def call(counts: Sequence[int] | np.ndarray) -> Call:
        elements = checked_counts(counts, group.size, None if source is None else source.size)
        destination, result = room(out, (elements[group.rank],), kind)
        sizes = _sizes(elements, kind)
        return Call("scatterv", SCATTER, sizes, source, destination, result, root, timeout=timeout, fence=fence)

    if agreed:
        assert counts is not None
        return call(counts)
    agreed_counts = np.empty(group.size, np.int64)
    if source is not None:
        assert counts is not None
        agreed_counts[:] = checked_counts(counts, group.size, source.size)
    first = broadcast(group, agreed_counts, root, timeout, fence)
    return Deferred("scatterv", first, lambda: call(agreed_counts))


def _exchanged(
    group: Group,
    name: str,
    count: int,
    call: Callable[[np.ndarray], Call],
    timeout: float | None,
    fence: bool,
) -> Deferred:
    """The call, after all ranks have told each other how many elements they bring."""
    counts = np.empty(group.size, np.int64)
    first = allgather(group, np.array(count, np.int64), counts, timeout, fence)
    return Deferred(name, first, lambda: call(counts))


def _with_own(counts: Sequence[int] | np.ndarray, group: Group, own: int) -> tuple[int, ...]:
    elements = checked_counts(counts, group.size)
    if elements[group.rank] != own:
        raise InvalidRequest(
            f"counts say {elements[group.rank]} elements for rank {group.rank}, its array has {own}",
            remedy="Give every rank the same counts, and arrays of these sizes.",
        )
    return elements


def _sizes(elements: tuple[int, ...], dtype: np.dtype) -> tuple[int, ...]:
    return tuple(count * dtype.itemsize for count in elements)


def _expected_type(out: Any, dtype: Any) -> np.dtype:
    """Type of the part that a rank other than the root gets."""
    if out is not None:
        return writable(out).dtype
    if dtype is None:
        raise InvalidRequest(
            "a rank that is not the root does not know the type of its part", remedy="Give out, or dtype."
        )
    return dtype_of(dtype)

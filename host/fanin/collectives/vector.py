"""The arguments of the collectives that move parts of different sizes.

Sizes are counts of elements. All ranks must know all of them, since messages are cut by them: where they are not given
on every rank, they are exchanged first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fanin.collectives.call import ANY_SIZE, Call, Group, require_root
from fanin.collectives.counts import checked_counts
from fanin.errors import InvalidRequest
from fanin.memory.buffers import bytes_of, dtype_of, readable, room, writable
from fanin_wire.collectives import collective

ALLGATHERV, GATHERV, SCATTERV = (collective(name) for name in ("allgatherv", "gatherv", "scatterv"))
Counts = Sequence[int] | np.ndarray


def allgatherv(
    group: Group,
    array: Any,
    out: Any = None,
    counts: Sequence[int] | None = None,
    timeout: float | None = None,
    fence: bool = False,
) -> Call:
    """Give every rank the arrays of all, one after the other, as a flat array.

    counts: elements of each rank's array; give them on every rank, or on none. In place where `array` is the rank's own
    part of `out`.
    """
    source = readable(array)

    def call(counts: Counts) -> Call:
        elements = _with_own(counts, group, source.size)
        destination, result = room(out, (sum(elements),), source.dtype)
        sizes = _sizes(elements, source.dtype)
        return Call("allgatherv", ALLGATHERV, sizes, source, destination, result, timeout=timeout, fence=fence)

    if counts is not None:
        return call(counts)
    made = Call("allgatherv", ALLGATHERV, (source.nbytes,), source, timeout=timeout, fence=fence, with_counts=call)
    made.conclude = _taking(out, source.dtype)
    return made


def gatherv(
    group: Group,
    array: Any,
    out: Any = None,
    root: int = 0,
    counts: Sequence[int] | None = None,
    timeout: float | None = None,
    fence: bool = False,
) -> Call:
    """Give rank `root` the arrays of all, one after the other, as a flat array; the others None.

    counts: elements of each rank's array; give them on every rank, or on none. out: looked at on the root only.
    """
    require_root(group, root)
    source = readable(array)

    def call(counts: Counts) -> Call:
        elements = _with_own(counts, group, source.size)
        sizes = _sizes(elements, source.dtype)
        made = Call("gatherv", GATHERV, sizes, source, root=root, timeout=timeout, fence=fence)
        if group.rank == root:
            made.destination, made.result = room(out, (sum(elements),), source.dtype)
        return made

    if counts is not None:
        return call(counts)
    made = Call("gatherv", GATHERV, (source.nbytes,), source, root=root, timeout=timeout, fence=fence, with_counts=call)
    if group.rank == root:
        made.conclude = _taking(out, source.dtype)
    return made


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
) -> Call:
    """Give each rank its part of `array` of rank `root`, as a flat array; the parts lie there one after the other.

    array: looked at on the root only. The other ranks say what they expect: `out`, or `dtype`. counts: elements of each
    part. They are the root's, and are sent to the others first; unless all ranks give them and `agreed`.
    """
    require_root(group, root)
    source = readable(array, "the array of the root") if group.rank == root else None
    kind = source.dtype if source is not None else _expected_type(out, dtype)
    if counts is None and (agreed or source is not None):
        raise InvalidRequest("counts are missing: the elements of each rank's part", remedy="Give one for each rank.")

    def call(counts: Counts) -> Call:
        elements = checked_counts(counts, group.size, None if source is None else source.size)
        destination, result = room(out, (elements[group.rank],), kind)
        sizes = _sizes(elements, kind)
        return Call("scatterv", SCATTERV, sizes, source, destination, result, root, timeout=timeout, fence=fence)

    if agreed:
        assert counts is not None
        return call(counts)
    sizes: tuple[int, ...] = (ANY_SIZE,)
    if source is not None:
        assert counts is not None
        sizes = _sizes(checked_counts(counts, group.size, source.size), kind)
    made = Call("scatterv", SCATTERV, sizes, source, root=root, timeout=timeout, fence=fence, with_counts=call)
    made.conclude = _taking(out, kind)
    made.kind = kind
    return made


def _taking(out: Any, dtype: np.dtype) -> Callable[[Any], Any]:
    """The last step of a call whose sizes were exchanged: the data that have come become the result."""

    def take(request: Any) -> Any:
        length, _ = request._received()
        destination, result = room(out, (length // max(1, dtype.itemsize),), dtype)
        if length:
            request._copy_received(bytes_of(destination))
        return result

    return take


def exchanged_counts(group: Any, call: Call) -> np.ndarray:
    """Elements of each rank's part, of a call that only some ranks know them of. All ranks call this."""
    if call.row is SCATTERV:
        counts = np.zeros(group.size, np.int64)
        if call.source is not None:
            counts[:] = np.array(call.sizes) // max(1, call.source.itemsize)
        return group.broadcast(counts, call.root, call.timeout)
    assert call.source is not None
    return group.allgather(np.array(call.source.size, np.int64), timeout=call.timeout)


def _with_own(counts: Counts, group: Group, own: int) -> tuple[int, ...]:
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

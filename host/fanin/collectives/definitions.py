"""The collectives: the arguments of each, what it does, and the Call that it makes.

The methods of Communicator are made from these functions (`variants.py`); no other place names the arguments, their
defaults, or the text that help() shows. Record 0003 (docs/decisions) says why devices know no collective by name.
"""

import functools
from collections.abc import Sequence
from typing import Any

from fanin.collectives.arguments import call_of, expected, require_root
from fanin.collectives.call import Call, Group
from fanin.collectives.host_reduction import computed
from fanin.collectives.offload import OpName
from fanin.memory.buffers import writable
from fanin_wire.collectives import collective


def allreduce(
    group: Group,
    array: Any,
    out: Any = None,
    op: OpName = "sum",
    timeout: float | None = None,
    fence: bool = False,
    datatype: str | None = None,
) -> Call:
    """Combine `array` of all ranks element by element; every rank gets the result, in the shape of `array`.

    datatype: type of the elements where numpy's does not name it: "bf16" for an array of uint16.
    """
    return computed(group, call_of(group, "allreduce", array, out, 0, timeout, fence), op, datatype)


def reduce(
    group: Group,
    array: Any,
    out: Any = None,
    op: OpName = "sum",
    root: int = 0,
    timeout: float | None = None,
    fence: bool = False,
    datatype: str | None = None,
) -> Call:
    """Combine `array` of all ranks element by element; rank `root` gets the result, the others None.

    out: used on the root only. datatype: as of allreduce.
    """
    return computed(group, call_of(group, "reduce", array, out, root, timeout, fence), op, datatype)


def reduce_scatter(
    group: Group,
    array: Any,
    out: Any = None,
    op: OpName = "sum",
    counts: Sequence[int] | None = None,
    timeout: float | None = None,
    fence: bool = False,
    datatype: str | None = None,
) -> Call:
    """Combine `array` of all ranks element by element; each rank gets its part of the result.

    Equal parts by default: array[rank] of an array with as many rows as ranks, or an equal slice of a flat one. counts:
    elements of each rank's part, equal on every rank; the result is then flat. datatype: as of allreduce.
    """
    call = call_of(group, "reduce_scatter", array, out, 0, timeout, fence, counts=counts)
    return computed(group, call, op, datatype)


def broadcast(group: Group, array: Any, root: int = 0, timeout: float | None = None, fence: bool = False) -> Call:
    """Give every rank what `array` of rank `root` holds. It is written in place, and returned.

    The array must be writable and C-contiguous on every rank, also on the root, so that all ranks refuse a mistake.
    """
    require_root(group, root)
    memory = writable(
        array,
        "the array",
        if_read_only="Give a writable array on every rank, also on the root: array.copy().",
        if_scattered="Give a contiguous copy on every rank, also on the root: numpy.ascontiguousarray(array).",
    )
    call = call_of(group, "broadcast", memory, memory, root, timeout, fence, lambda: (memory.shape, memory.dtype))
    call.result = array
    return call


def allgather(group: Group, array: Any, out: Any = None, timeout: float | None = None, fence: bool = False) -> Call:
    """Give every rank the arrays of all: an array of shape (size, *array.shape), row r from rank r.

    In place where `array` is the rank's own row of `out`.
    """
    return call_of(group, "allgather", array, out, 0, timeout, fence)


def gather(
    group: Group, array: Any, out: Any = None, root: int = 0, timeout: float | None = None, fence: bool = False
) -> Call:
    """Give rank `root` an array of shape (size, *array.shape), row r from rank r; the others get None.

    out: used on the root only; in place where `array` is the root's own row of it.
    """
    return call_of(group, "gather", array, out, root, timeout, fence)


def scatter(
    group: Group,
    array: Any = None,
    out: Any = None,
    root: int = 0,
    shape: int | Sequence[int] | None = None,
    dtype: Any = None,
    timeout: float | None = None,
    fence: bool = False,
) -> Call:
    """Give each rank its part of `array` of rank `root`: array[rank], or an equal slice of a flat array.

    array: used on the root only. The other ranks give `out`, or `shape` and `dtype` of their part.
    """
    part = functools.partial(expected, out, dtype, shape, "shape and ")
    return call_of(group, "scatter", array, out, root, timeout, fence, part)


def barrier(group: Group, timeout: float | None = None, fence: bool = False) -> Call:
    """Wait until all ranks have called it."""
    return Call(collective("barrier"), timeout=timeout, fence=fence)


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
    return call_of(group, "allgatherv", array, out, 0, timeout, fence, None, counts, exchanges=counts is None)


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

    counts: elements of each rank's array; give them on every rank, or on none. out: used on the root only.
    """
    return call_of(group, "gatherv", array, out, root, timeout, fence, None, counts, exchanges=counts is None)


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
    """Give each rank its part of `array` of rank `root`, whose parts lie one after the other, as a flat array.

    array: used on the root only. The other ranks give `out`, or `dtype`. counts: elements of each part; the root's are
    sent to the others first, unless all ranks give them and `agreed`.
    """
    part = functools.partial(expected, out, dtype)
    return call_of(group, "scatterv", array, out, root, timeout, fence, part, counts, exchanges=not agreed)

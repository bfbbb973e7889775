"""The arguments of the collectives that compute. Each function checks them and makes the Call.

The extension documents the collectives (`binding/collectives.c`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fanin.collectives.call import Call, Group, require_root
from fanin.collectives.counts import checked_counts, equal_part
from fanin.collectives.host_reduction import on_host
from fanin.collectives.offload import OpName
from fanin.memory.buffers import readable, room
from fanin_wire.collectives import collective

ALLREDUCE, REDUCE, REDUCE_SCATTER = (collective(name) for name in ("allreduce", "reduce", "reduce_scatter"))


def allreduce(
    group: Group,
    array: Any,
    out: Any = None,
    op: OpName = "sum",
    timeout: float | None = None,
    fence: bool = False,
    datatype: str | None = None,
) -> Call:
    """The arguments of Communicator.allreduce."""
    source = readable(array)
    destination, result = room(out, source.shape, source.dtype)
    call = Call("allreduce", ALLREDUCE, (source.nbytes,), source, destination, result, timeout=timeout, fence=fence)
    return _computed(group, call, op, datatype)


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
    """The arguments of Communicator.reduce."""
    require_root(group, root)
    source = readable(array)
    call = Call("reduce", REDUCE, (source.nbytes,), source, root=root, timeout=timeout, fence=fence)
    if group.rank == root:
        call.destination, call.result = room(out, source.shape, source.dtype)
    return _computed(group, call, op, datatype)


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
    """The arguments of Communicator.reduce_scatter."""
    source = readable(array)
    if counts is None:
        shape = equal_part(source, group.size)
        sizes = (source.nbytes // group.size,) * group.size
    else:
        elements = checked_counts(counts, group.size, source.size)
        shape, sizes = (elements[group.rank],), tuple(count * source.itemsize for count in elements)
    destination, result = room(out, shape, source.dtype)
    call = Call("reduce_scatter", REDUCE_SCATTER, sizes, source, destination, result, timeout=timeout, fence=fence)
    return _computed(group, call, op, datatype)


def _computed(group: Group, call: Call, op: OpName, datatype: str | None) -> Call:
    """The call as the devices compute it; or, where they do not and the program allows it, as the host does."""
    assert call.source is not None
    choice = group.offload.choose(op, call.source.dtype, datatype)
    if choice.reason is not None:
        return on_host(call, call.source, group.size, group.rank, op, choice)
    assert choice.operation is not None
    assert choice.datatype is not None
    call.op, call.dtype = choice.operation.code, choice.datatype.code
    return call

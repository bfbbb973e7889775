"""The arguments of the collectives that move equal parts. Each function checks them and makes the Call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fanin.collectives.call import Call, Group, require_root
from fanin.collectives.counts import equal_part
from fanin.errors import InvalidRequest
from fanin.memory.buffers import dtype_of, readable, room, shape_of, writable
from fanin_wire.collectives import collective

BROADCAST, ALLGATHER, GATHER, SCATTER, BARRIER = (
    collective(name) for name in ("broadcast", "allgather", "gather", "scatter", "barrier")
)


def broadcast(group: Group, array: Any, root: int = 0, timeout: float | None = None, fence: bool = False) -> Call:
    """The arguments of Communicator.broadcast."""
    require_root(group, root)
    memory = writable(
        array,
        "the array",
        if_read_only="Give a writable array on every rank, also on the root: array.copy().",
        if_scattered="Give a contiguous copy on every rank, also on the root: numpy.ascontiguousarray(array).",
    )
    source, destination = (memory, None) if group.rank == root else (None, memory)
    sizes = (memory.nbytes,)
    return Call("broadcast", BROADCAST, sizes, source, destination, array, root, timeout=timeout, fence=fence)


def allgather(group: Group, array: Any, out: Any = None, timeout: float | None = None, fence: bool = False) -> Call:
    """The arguments of Communicator.allgather."""
    source = readable(array)
    destination, result = room(out, (group.size, *source.shape), source.dtype)
    sizes = (source.nbytes,) * group.size
    return Call("allgather", ALLGATHER, sizes, source, destination, result, timeout=timeout, fence=fence)


def gather(
    group: Group, array: Any, out: Any = None, root: int = 0, timeout: float | None = None, fence: bool = False
) -> Call:
    """The arguments of Communicator.gather."""
    require_root(group, root)
    source = readable(array)
    call = Call("gather", GATHER, (source.nbytes,) * group.size, source, root=root, timeout=timeout, fence=fence)
    if group.rank == root:
        call.destination, call.result = room(out, (group.size, *source.shape), source.dtype)
    return call


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
    """The arguments of Communicator.scatter."""
    require_root(group, root)
    if group.rank == root:
        source = readable(array, "the array of the root")
        part, kind = equal_part(source, group.size), source.dtype
    else:
        source = None
        part, kind = _expected(out, shape, dtype)
    destination, result = room(out, part, kind)
    sizes = (destination.nbytes,) * group.size
    return Call("scatter", SCATTER, sizes, source, destination, result, root, timeout=timeout, fence=fence)


def _expected(out: Any, shape: int | Sequence[int] | None, dtype: Any) -> tuple[tuple[int, ...], np.dtype]:
    """Shape and type of the part that a rank other than the root gets."""
    if out is not None:
        memory = writable(out)
        return memory.shape, memory.dtype
    if shape is None or dtype is None:
        raise InvalidRequest(
            "a rank that is not the root does not know the shape and type of its part",
            remedy="Give out, or shape and dtype.",
        )
    return shape_of(shape), dtype_of(dtype)


def barrier(group: Group, timeout: float | None = None, fence: bool = False) -> Call:
    """The arguments of Communicator.barrier."""
    return Call("barrier", BARRIER, (), timeout=timeout, fence=fence)

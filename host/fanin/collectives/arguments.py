"""From the arguments of a collective to its Call: what this rank brings and wants, by the table of collectives."""

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from fanin.collectives.call import Call, Group
from fanin.collectives.counts import Counts, Shape, equal_blocks, uneven_blocks
from fanin.collectives.vector import known_sizes, taking
from fanin.errors import InvalidRequest
from fanin.memory.buffers import dtype_of, readable, room, shape_of, writable
from fanin_wire.collectives import COLLECTIVES, Who

# Row of a collective, whether a rank brings something, and whether it wants something; by whether it is the root.
ROLES = {
    (row.name, rank == 0): (row, row.brings.who.includes(rank, root=0), row.wants.who.includes(rank, root=0))
    for row in COLLECTIVES
    for rank in range(2)
}

Part = Callable[[], tuple[Shape, np.dtype]]


def call_of(
    group: Group,
    name: str,
    array: Any,
    out: Any,
    root: int,
    timeout: float | None,
    fence: bool,
    part: Part | None = None,
    counts: Counts | None = None,
    exchanges: bool = False,
) -> Call:
    """The call of a collective that moves data.

    part: shape and type of the block of a rank that brings nothing. counts: elements of each rank's block; None: equal
    blocks. exchanges: not all ranks know the counts.
    """
    require_root(group, root)
    row, brings, wants = ROLES[name, group.rank == root]
    source = None
    if brings:
        source = readable(array, "the array of the root" if row.brings.who is Who.ROOT else "the input")
        shape, dtype = source.shape, source.dtype
    else:
        assert part is not None
        shape, dtype = part()
    call = Call(row, dtype, source, root=root, timeout=timeout, fence=fence)
    if exchanges:
        call.sizes = known_sizes(call, counts, group.size)
        call.with_counts = functools.partial(call_of, group, name, array, out, root, timeout, fence, part)
        call.conclude = taking(out, dtype) if wants else None
        return call
    count, is_whole = math.prod(shape), brings and not row.brings.own
    if row.is_vector or counts is not None:
        own, total = count if row.brings.own else None, count if is_whole else None
        own_shape, whole_shape, call.sizes = uneven_blocks(counts, group.size, group.rank, dtype.itemsize, own, total)
    elif row.divided:
        own_shape, whole_shape, call.sizes = equal_blocks(shape, group.size, dtype.itemsize, is_whole)
    else:
        own_shape, whole_shape, call.sizes = shape, shape, (count * dtype.itemsize,)
    if wants:
        call.destination, call.result = room(out, own_shape if row.wants.own else whole_shape, dtype)
    return call


def require_root(group: Group, root: int) -> None:
    """InvalidRequest if there is no such rank."""
    if not isinstance(root, (int, np.integer)) or not 0 <= root < group.size:
        raise InvalidRequest(f"root {root!r} is not one of the ranks 0 to {group.size - 1}", remedy="Give one of them.")


def expected(out: Any, dtype: Any, shape: Any = None, facts: str = "") -> tuple[Shape, np.dtype]:
    """Shape and type of the part of a rank that is not the root. facts: what is needed beside the type."""
    if out is not None:
        memory = writable(out)
        return memory.shape, memory.dtype
    if dtype is None or (facts and shape is None):
        raise InvalidRequest(
            f"a rank that is not the root does not know the {facts}type of its part",
            remedy=f"Give out, or {facts}dtype.",
        )
    return shape_of(shape) if facts else (), dtype_of(dtype)

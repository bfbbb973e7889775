"""Collectives whose sizes only some ranks know: they are exchanged first, since messages are cut by all sizes."""

from collections.abc import Callable
from typing import Any

import numpy as np

from fanin.collectives.call import ANY_SIZE, Call, Group
from fanin.collectives.counts import Counts, checked_counts
from fanin.memory.buffers import bytes_of, room
from fanin_wire.collectives import collective


def known_sizes(call: Call, counts: Counts | None, size: int) -> tuple[int, ...]:
    """What this rank knows before the exchange: bytes of all parts, of its own, or nothing."""
    if call.source is None:
        return (ANY_SIZE,)
    if call.row.brings.own:
        return (call.source.nbytes,)
    return tuple(count * call.source.itemsize for count in checked_counts(counts, size, call.source.size))


def taking(out: Any, dtype: np.dtype) -> Callable[[Any], Any]:
    """The last step: the result, from the data that have come."""

    def take(request: Any) -> Any:
        received = request._received()
        destination, result = room(out, (received.nbytes // max(1, dtype.itemsize),), dtype)
        if (memory := bytes_of(destination)) is not None:
            memory.reshape(-1)[:] = received
        return result

    return take


def exchange_of_counts(group: Group, call: Call) -> Call:
    """Gives every rank the elements of each rank's part, with which `call` is then made."""
    counts = np.zeros(group.size, np.int64)
    whole: dict[str, Any] = {"destination": counts, "result": counts, "part_of": f"{call.name}_init"}
    if call.row.brings.own:
        assert call.source is not None
        own = np.array([call.source.size], np.int64)
        sizes = (own.nbytes,) * group.size
        return Call(collective("allgather"), own.dtype, own, sizes=sizes, timeout=call.timeout, **whole)
    if call.source is not None:
        counts[:] = np.array(call.sizes) // max(1, call.source.itemsize)
    row, sizes = collective("broadcast"), (counts.nbytes,)
    return Call(row, counts.dtype, counts, sizes=sizes, root=call.root, timeout=call.timeout, **whole)

"""Collectives whose sizes only some ranks know. All must know all of them, since messages are cut by them: they are
exchanged first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fanin.collectives.call import ANY_SIZE, Call
from fanin.collectives.counts import Counts, checked_counts
from fanin.memory.buffers import bytes_of, room


def known_sizes(call: Call, counts: Counts | None, size: int) -> tuple[int, ...]:
    """What this rank knows before: bytes of all parts, of its own, or nothing."""
    if call.source is None:
        return (ANY_SIZE,)
    if call.row.brings.own:
        return (call.source.nbytes,)
    return tuple(count * call.source.itemsize for count in checked_counts(counts, size, call.source.size))


def taking(out: Any, dtype: np.dtype) -> Callable[[Any], Any]:
    """The last step: the data that have come become the result."""

    def take(request: Any) -> Any:
        received = request._received()
        destination, result = room(out, (received.nbytes // max(1, dtype.itemsize),), dtype)
        if (memory := bytes_of(destination)) is not None:
            memory.reshape(-1)[:] = received
        return result

    return take


def exchanged_counts(group: Any, call: Call) -> np.ndarray:
    """Elements of each rank's part, for a call that is to be made with them. All ranks call this."""
    if call.row.brings.own:
        assert call.source is not None
        return group.allgather(np.array(call.source.size, np.int64), timeout=call.timeout)
    counts = np.zeros(group.size, np.int64)
    if call.source is not None:
        counts[:] = np.array(call.sizes) // max(1, call.source.itemsize)
    return group.broadcast(counts, call.root, call.timeout)

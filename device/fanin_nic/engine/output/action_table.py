"""The table of actions: the only place where the engine appends to it."""

from numba import int64

from fanin_nic.engine.records.accessors import ONE, U64, action_at, count
from fanin_nic.engine.records.actions import ACTION
from fanin_nic.engine.records.tables import ENGINE, Counter
from fanin_nic.native.compiled import internal, internal_for
from fanin_nic.native.memory import address_of, fill_zero

ACTION_SIZE = U64(ACTION.itemsize)


@internal
def take_row(e):
    """Number of a new action. A full table drops it and counts: the driver leaves room before each event."""
    if e.action_count == e.actions:
        count(e, Counter.ACTION_OVERFLOW)
        e.action_count -= 1
    e.action_count += 1
    return U64(e.action_count) - ONE


@internal_for(ENGINE, int64, returns=int64)
def append(e, kind):
    """Number of a new, zeroed action."""
    index = take_row(e)
    action = action_at(e, index)
    fill_zero(address_of(action), ACTION_SIZE)
    action.kind = kind
    return int64(index)

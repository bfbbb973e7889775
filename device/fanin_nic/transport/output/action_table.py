"""The table of actions: the only place where the transport appends to it."""

from numba import int64

from fanin_nic.native.compiled import internal, internal_for
from fanin_nic.native.memory import address_of, fill_zero
from fanin_nic.transport.records.accessors import U64, action_at, count
from fanin_nic.transport.records.actions import ACTION
from fanin_nic.transport.records.tables import TRANSPORT, Counter
from fanin_wire.abi import MAX_SGE

ACTION_SIZE = U64(ACTION.itemsize)
MAX_ACTIONS_PER_PACKET = 2 * MAX_SGE + 4  # actions of one packet, received or sent


@internal
def has_room(t):
    """Whether the actions of one more packet fit."""
    return int64(t.action_count) + MAX_ACTIONS_PER_PACKET <= int64(t.actions)


@internal_for(TRANSPORT, int64, returns=int64)
def append(t, kind):
    """Number of a new, zeroed action. A full table drops the last one and counts: callers check `has_room` first."""
    if t.action_count == t.actions:
        count(t, Counter.ACTION_OVERFLOW)
        t.action_count -= 1
    index = int64(t.action_count)
    t.action_count += 1
    action = action_at(t, U64(index))
    fill_zero(address_of(action), ACTION_SIZE)
    action.kind = kind
    return index

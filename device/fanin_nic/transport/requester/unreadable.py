"""A packet whose payload is unreadable, because its process is gone: its request ends in error.

The driver finds out while it builds the packet, when the request may be complete (UC, UD) and others may follow it in
the table of actions. They are taken back, as if the transport had refused the request at this packet.
"""

from numba import int64

from fanin_nic.native.compiled import internal
from fanin_nic.transport.queue_pairs.failure import ERR, RC, RECEIVED
from fanin_nic.transport.records.accessors import U64, action_at, add, queue_pair_at, send_index, send_row
from fanin_nic.transport.records.actions import ActionKind
from fanin_nic.transport.records.tables import Counter
from fanin_nic.transport.requester.retry import position
from fanin_nic.transport.requester.send import REFUSED, refuse
from fanin_nic.transport.requester.start import PROTECTION_ERROR

NONE, SEND, COMPLETE = int(ActionKind.NONE), int(ActionKind.SEND), int(ActionKind.COMPLETE)
COMPLETIONS = int(Counter.COMPLETIONS)


@internal
def fail_unreadable(t, number):
    """The payload of the action `number`, the SEND of a requester, is unreadable."""
    action = action_at(t, U64(number))
    q = queue_pair_at(t, U64(action.queue_pair))
    take_back(t, q, int64(number))
    if q.state == ERR:  # it failed in the same turn: its requests have their completions
        return
    if q.kind == RC:
        position(t, q, action.psn)
    else:
        q.send_head = q.send_next = action.request
        q.next_psn = action.psn
    request = send_row(t, send_index(t, q, q.send_next))
    request.state = REFUSED
    request.status = PROTECTION_ERROR
    refuse(t, q, request)


@internal
def take_back(t, q, number):
    """Remove the requester's packets from action `number` on; for UC and UD also the completions of sent requests."""
    for index in range(number, int64(t.action_count)):
        action = action_at(t, U64(index))
        if action.queue_pair != q.index:
            continue
        if action.kind == SEND and action.of_request:
            action.kind = NONE
        elif action.kind == COMPLETE and q.kind != RC and action.opcode < RECEIVED:
            action.kind = NONE
            add(t, COMPLETIONS, -1)

"""A packet whose payload is unreadable, because its process is gone: its request ends in error.

The driver finds out while it builds the packet, when the request may be complete (UC, UD) and others may follow it in
the table of actions. They are taken back, as if the transport had refused the request at this packet.
"""

from numba import int64

from fanin_nic.native.compiled import internal
from fanin_nic.transport.records.accessors import U64, action_at, add, queue_pair_at, send_index, send_row
from fanin_nic.transport.records.actions import ActionKind
from fanin_nic.transport.records.tables import Counter, RequestState
from fanin_nic.transport.requester.retry import position
from fanin_nic.transport.requester.send import refuse
from fanin_wire.rocev2 import Transport
from fanin_wire.verbs import CompletionOpcode, CompletionStatus, QueuePairState


@internal
def fail_unreadable(t, number):
    """The payload of the action `number`, the SEND of a requester, is unreadable."""
    action = action_at(t, U64(number))
    q = queue_pair_at(t, U64(action.queue_pair))
    take_back(t, q, int64(number))
    if q.state == QueuePairState.ERR:  # it failed in the same turn: its requests have their completions
        return
    if q.kind == Transport.RC:
        position(t, q, action.psn)
    else:
        q.send_head = q.send_next = action.request
        q.next_psn = action.psn
    request = send_row(t, send_index(t, q, q.send_next))
    request.state = RequestState.REFUSED
    request.status = CompletionStatus.LOC_PROT_ERR
    refuse(t, q, request)


@internal
def take_back(t, q, number):
    """Remove the requester's packets from action `number` on; for UC and UD also the completions of sent requests."""
    for index in range(number, int64(t.action_count)):
        action = action_at(t, U64(index))
        if action.queue_pair != q.index:
            continue
        if action.kind == ActionKind.SEND and action.of_request:
            action.kind = ActionKind.NONE
        elif action.kind == ActionKind.COMPLETE and q.kind != Transport.RC and action.opcode < CompletionOpcode.RECV:
            action.kind = ActionKind.NONE
            add(t, Counter.COMPLETIONS, -1)

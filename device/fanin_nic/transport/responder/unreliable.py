"""Requests of an unreliable connection: a message arrives whole, or not at all (section 9.8.2)."""

import numpy as np
from numba import int64

from fanin_nic.native.compiled import internal
from fanin_nic.transport.output.headers import OPERATIONS, PARTS
from fanin_nic.transport.queue_pairs.receive_queue import give_back
from fanin_nic.transport.records.accessors import count
from fanin_nic.transport.records.psn import psn_after
from fanin_nic.transport.records.tables import Counter, Receiving
from fanin_nic.transport.responder.receives import FIRST, ONLY, on_send
from fanin_nic.transport.responder.verdicts import ACCEPTED, ACCESS, Verdict
from fanin_nic.transport.responder.writes import REMOTE_WRITE, on_write
from fanin_wire.rocev2 import Operation

SEND = int(Operation.SEND)
NOTHING, SENDING, WRITING = int(Receiving.NOTHING), int(Receiving.SEND), int(Receiving.WRITE)
DROP_OPCODE_SEQUENCE = int(Counter.DROP_OPCODE_SEQUENCE)
DROPS = np.zeros(len(Verdict), np.uint8)  # counter of a message that is not accepted
DROPS[Verdict.NOT_READY] = Counter.DROP_NO_RECEIVE
DROPS[Verdict.INVALID] = Counter.DROP_LENGTH
DROPS[Verdict.ACCESS] = DROPS[Verdict.OPERATION] = Counter.DROP_PROTECTION


@internal
def on_unreliable_request(t, q, packet, data, length):
    """A request packet of UC. A dropped message gives its request back to a shared queue."""
    take_unreliable(t, q, packet, data, length)
    if q.receiving != SENDING:
        give_back(t, q)


@internal
def take_unreliable(t, q, packet, data, length):
    """Perform a packet. After a lost one the rest of its message is dropped; the next message begins anew."""
    operation, part = int64(OPERATIONS[packet.opcode]), int64(PARTS[packet.opcode])
    begins = part in (FIRST, ONLY)
    if begins:
        q.receiving = NOTHING
    elif packet.psn != q.expected or q.receiving != (SENDING if operation == SEND else WRITING):
        q.receiving = NOTHING
        count(t, DROP_OPCODE_SEQUENCE)
        return
    q.expected = psn_after(packet.psn, 1)
    if operation == SEND:
        verdict = on_send(t, q, packet, part, data, length)
    elif not int64(q.access) & REMOTE_WRITE:
        verdict = ACCESS
    else:
        verdict = on_write(t, q, packet, part, data, length)
    if verdict != ACCEPTED:
        q.receiving = NOTHING
        count(t, int64(DROPS[verdict]))

"""Requests of an unreliable connection: a message arrives whole, or not at all (section 9.8.2)."""

import numpy as np
from numba import int64

from fanin_nic.native.compiled import internal
from fanin_nic.transport.output.headers import OPERATIONS, PARTS
from fanin_nic.transport.queue_pairs.receive_queue import give_back
from fanin_nic.transport.records.accessors import count
from fanin_nic.transport.records.psn import psn_after
from fanin_nic.transport.records.tables import Counter, Receiving
from fanin_nic.transport.responder.receives import on_send
from fanin_nic.transport.responder.verdicts import Verdict
from fanin_nic.transport.responder.writes import on_write
from fanin_wire.rocev2 import Operation, Part
from fanin_wire.verbs import Access

DROPS = np.zeros(len(Verdict), np.uint8)  # counter of a message that is not accepted
DROPS[Verdict.NOT_READY] = Counter.DROP_NO_RECEIVE
DROPS[Verdict.INVALID] = Counter.DROP_LENGTH
DROPS[Verdict.ACCESS] = DROPS[Verdict.OPERATION] = Counter.DROP_PROTECTION


@internal
def on_unreliable_request(t, q, packet, data, length):
    """A request packet of UC. A dropped message gives its request back to a shared queue."""
    take_unreliable(t, q, packet, data, length)
    if q.receiving != Receiving.SEND:
        give_back(t, q)


@internal
def take_unreliable(t, q, packet, data, length):
    """Perform a packet. After a lost one the rest of its message is dropped; the next message begins anew."""
    operation, part = int64(OPERATIONS[packet.opcode]), int64(PARTS[packet.opcode])
    begins = part in (Part.FIRST, Part.ONLY)
    if begins:
        q.receiving = Receiving.NOTHING
    elif packet.psn != q.expected or q.receiving != (
        Receiving.SEND if operation == Operation.SEND else Receiving.WRITE
    ):
        q.receiving = Receiving.NOTHING
        count(t, Counter.DROP_OPCODE_SEQUENCE)
        return
    q.expected = psn_after(packet.psn, 1)
    if operation == Operation.SEND:
        verdict = on_send(t, q, packet, part, data, length)
    elif not int64(q.access) & Access.REMOTE_WRITE:
        verdict = Verdict.ACCESS
    else:
        verdict = on_write(t, q, packet, part, data, length)
    if verdict != Verdict.ACCEPTED:
        q.receiving = Receiving.NOTHING
        count(t, int64(DROPS[verdict]))

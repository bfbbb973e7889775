"""Requests of a connection: the expected one, one too early, or a repetition (sections 9.7.4 and 9.8.2)."""

import numpy as np
from numba import int64

from fanin_nic.native.compiled import internal
from fanin_nic.transport.output import OPERATIONS, PARTS
from fanin_nic.transport.queue_pairs import give_back
from fanin_nic.transport.records.accessors import count, packets_of, psn_after, psn_difference
from fanin_nic.transport.records.tables import Counter, Due, Receiving
from fanin_nic.transport.responder.operations import (
    NAKS,
    REFUSALS,
    Verdict,
    on_atomic,
    on_read,
    on_send,
    on_write,
    repeat_atomic,
    repeat_read,
    rnr_syndrome,
)
from fanin_nic.transport.responder.respond import SEQUENCE_ERROR, schedule_acknowledgement, schedule_nak, schedule_next
from fanin_wire.rocev2 import Operation, Part
from fanin_wire.verbs import Access

DROPS = np.zeros(len(Verdict), np.uint8)  # counter of a message that is not accepted
DROPS[Verdict.NOT_READY] = Counter.DROP_NO_RECEIVE
DROPS[Verdict.INVALID] = Counter.DROP_LENGTH
DROPS[Verdict.ACCESS] = DROPS[Verdict.OPERATION] = Counter.DROP_PROTECTION


@internal
def on_request(t, q, packet, data, length):
    """A request packet of RC."""
    ahead = psn_difference(packet.psn, q.expected)
    if q.due == Due.FATAL:
        count(t, Counter.DROP_BLOCKED)
    elif ahead > 0:
        on_gap(t, q, packet)
    elif ahead < 0:
        count(t, Counter.DUPLICATES)
        repeat(t, q, packet, -ahead)
    else:
        take_expected(t, q, packet, data, length)


@internal
def take_expected(t, q, packet, data, length):
    """Perform the expected packet, or refuse it."""
    before = q.expected
    verdict = carry_out(t, q, packet, data, length)
    if verdict == Verdict.ACCEPTED:
        psns = psns_of(q, packet)
        q.expected = psn_after(before, psns)
        note_answered(q, packet, psns)
        schedule_next(t, q, packet.ackreq, is_answered(packet))
    elif verdict == Verdict.NOT_READY:
        q.gap_reported = 1
        q.gap_end = psn_after(before, 1)
        schedule_nak(t, q, Due.NEGATIVE, rnr_syndrome(q), before)
    else:
        count(t, int64(REFUSALS[verdict]))
        schedule_nak(t, q, Due.FATAL, int64(NAKS[verdict]), before)


@internal
def carry_out(t, q, packet, data, length):
    """Perform the expected packet; returns a Verdict."""
    operation, part = int64(OPERATIONS[packet.opcode]), int64(PARTS[packet.opcode])
    if operation == Operation.SEND:
        return on_send(t, q, packet, part, data, length)
    if operation == Operation.WRITE:
        return on_write(t, q, packet, part, data, length)
    if operation == Operation.READ_REQUEST:
        return on_read(t, q, packet, length)
    return on_atomic(t, q, packet, operation, length)


@internal
def psns_of(q, packet):
    """PSNs of a request packet: of a READ those of all packets of its response."""
    return packets_of(packet.dlen, q.mtu) if int64(OPERATIONS[packet.opcode]) == Operation.READ_REQUEST else 1


@internal
def is_answered(packet):
    """Whether a response answers a request packet, not an acknowledgement."""
    operation = int64(OPERATIONS[packet.opcode])
    return operation != Operation.SEND and operation != Operation.WRITE


@internal
def note_answered(q, packet, psns):
    """Count the reads and atomics since the last packet of a SEND or WRITE. psns: of this packet."""
    if is_answered(packet):
        q.answered_psns += psns
        q.answered_messages += 1
    else:
        q.answered_psns = 0
        q.answered_messages = 0


@internal
def on_gap(t, q, packet):
    """A packet before this one is missing: ask for it, once (section 9.7.5.2)."""
    count(t, Counter.DROP_SEQUENCE)
    behind = psn_after(packet.psn, 1)
    if not q.gap_reported or psn_difference(behind, q.gap_end) > 0:
        q.gap_end = behind
    if not q.gap_reported:
        q.gap_reported = 1
        schedule_nak(t, q, Due.NEGATIVE, SEQUENCE_ERROR, q.expected)


@internal
def repeat(t, q, packet, behind):
    """A request performed `behind` packets before the expected one (section 9.7.4). A read is performed again, an
    atomic is answered with its former value, all others are acknowledged."""
    operation = int64(OPERATIONS[packet.opcode])
    if operation in (Operation.SEND, Operation.WRITE):
        if q.due != Due.NEGATIVE:
            schedule_acknowledgement(t, q)
    elif operation == Operation.READ_REQUEST:
        repeat_read(t, q, packet, behind)
    else:
        repeat_atomic(t, q, packet)


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
    under_way = Receiving.SEND if operation == Operation.SEND else Receiving.WRITE
    if part in (Part.FIRST, Part.ONLY):
        q.receiving = Receiving.NOTHING
    elif packet.psn != q.expected or q.receiving != under_way:
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

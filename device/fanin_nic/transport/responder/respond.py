"""What a responder owes: responses to reads and atomics, then one acknowledgement (sections 9.7.5.1 and 9.7.5.2).

Acknowledgements are coalesced: the last one covers all requests before it. Responses go first, because an
acknowledgement of a later request would declare them lost.
"""

from numba import int64

from fanin_nic.native.compiled import internal
from fanin_nic.transport.memory import find_region, process_of, translate
from fanin_nic.transport.output import OUTGOING, add_piece, has_room, new_packet, send_bare, start_packet
from fanin_nic.transport.queue_pairs import fail_queue_pair
from fanin_nic.transport.records.accessors import (
    U64,
    action_at,
    count,
    make_ready,
    packet_at,
    psn_after,
    psn_difference,
    response_index,
    response_row,
)
from fanin_nic.transport.records.tables import Counter, Due
from fanin_wire.rocev2 import ACKNOWLEDGE_SHIFT, ATOMIC_BYTES, CODES, CREDITS_INVALID, Acknowledge, Nak, syndrome
from fanin_wire.verbs import Access

ACKNOWLEDGE, ATOMIC_ACKNOWLEDGE = CODES["RC_ACKNOWLEDGE"], CODES["RC_ATOMIC_ACKNOWLEDGE"]
READ_FIRST, READ_MIDDLE = CODES["RC_RDMA_READ_RESPONSE_FIRST"], CODES["RC_RDMA_READ_RESPONSE_MIDDLE"]
READ_LAST, READ_ONLY = CODES["RC_RDMA_READ_RESPONSE_LAST"], CODES["RC_RDMA_READ_RESPONSE_ONLY"]
POSITIVE = syndrome(Acknowledge.ACK, CREDITS_INVALID)
ACCESS_REFUSED = syndrome(Acknowledge.NAK, Nak.REMOTE_ACCESS)
SEQUENCE_ERROR = syndrome(Acknowledge.NAK, Nak.SEQUENCE)


@internal
def schedule_acknowledgement(t, q):
    """Acknowledge all SENDs and WRITEs that were performed, and what was before them."""
    q.due = Due.ACK
    make_ready(t, q)


@internal
def schedule_next(t, q, asks, is_answered):
    """The expected packet was accepted. asks: its sender wants an answer. is_answered: a response, which also
    acknowledges, follows. If later packets were dropped meanwhile, the next one is missing now."""
    if q.due == Due.NEGATIVE and psn_difference(q.gap_end, q.expected) > 0:
        schedule_nak(t, q, Due.NEGATIVE, SEQUENCE_ERROR, q.expected)
        return
    q.gap_reported = 0
    if is_answered:
        q.due = Due.NOTHING
    elif asks or q.due == Due.NEGATIVE:
        schedule_acknowledgement(t, q)


@internal
def schedule_nak(t, q, kind, code, psn):
    """A NAK of the packet with a PSN is due. kind: NEGATIVE, or FATAL, which ends the queue pair."""
    q.due = kind
    q.due_syndrome = code
    q.due_psn = psn
    make_ready(t, q)


@internal
def respond(t, q, budget):
    """Send up to `budget` packets of what is owed; returns whether more is owed."""
    for _ in range(budget):
        if q.response_head == q.response_tail:
            break
        if not has_room(t):
            return True
        send_response(t, q, response_row(t, response_index(q, q.response_head)))
    if q.response_head != q.response_tail:
        return True
    if q.due != Due.NOTHING:
        if not has_room(t):
            return True
        send_acknowledgement(t, q)
    return False


@internal
def send_response(t, q, response):
    """Send the next packet of the oldest response."""
    if response.is_atomic:
        send_original(t, q, response)
    elif not send_data(t, q, response):
        return
    response.done += 1
    if response.done == response.packets:
        q.response_head += 1
        if not response.is_repetition:
            q.response_count -= 1


@internal
def send_original(t, q, response):
    """Send the former value of an atomic. The driver learns it after this packet is built, so the AtomicAckETH, the
    last header, is payload here."""
    new_packet(t, q, ATOMIC_ACKNOWLEDGE, response.first_psn)
    packet = packet_at(t, OUTGOING)
    packet.syndrome = POSITIVE
    packet.msn = response.msn
    index = start_packet(t, q, q.destination, 0)
    action_at(t, U64(index)).header_length -= ATOMIC_BYTES
    add_piece(t, index, 0, response.address, ATOMIC_BYTES)


@internal
def send_data(t, q, response):
    """Send the next packet of the response to a read; returns whether it was sent. If its memory may no longer be read,
    the queue pair ends."""
    number, mtu = int64(response.done), int64(q.mtu)
    offset, psn = number * mtu, psn_after(response.first_psn, response.done)
    length = min(int64(response.length) - offset, mtu)
    address = response.address + U64(offset)
    found = find_region(t, q, response.rkey, address, length, Access.REMOTE_READ) if length else 0
    if length and not found:
        q.response_head = q.response_tail
        q.response_count = 0
        count(t, Counter.REFUSED_ACCESS)
        schedule_nak(t, q, Due.FATAL, ACCESS_REFUSED, psn)
        return False
    new_packet(t, q, read_opcode(number == 0, number + 1 == int64(response.packets)), psn)
    packet = packet_at(t, OUTGOING)
    packet.syndrome = POSITIVE
    packet.msn = response.msn
    index = start_packet(t, q, q.destination, length)
    if length:
        add_piece(t, index, process_of(t, found), translate(t, found, address), length)
    return True


@internal
def read_opcode(is_first, is_last):
    """BTH opcode of a packet of the response to a read."""
    if is_first:
        return READ_ONLY if is_last else READ_FIRST
    return READ_LAST if is_last else READ_MIDDLE


@internal
def send_acknowledgement(t, q):
    """Send the acknowledgement that is due; after a fatal one the queue pair is in error. A positive one is of the last
    packet of a SEND or WRITE: one of a read or atomic behind it would declare its response lost, and rxe even takes it
    for the response."""
    due = q.due
    psn, msn = int64(q.due_psn), int64(q.msn)
    if due == Due.ACK:
        psn = psn_after(q.expected, -1 - int64(q.answered_psns))
        msn = psn_after(msn, -int64(q.answered_messages))
    new_packet(t, q, ACKNOWLEDGE, psn)
    packet = packet_at(t, OUTGOING)
    packet.syndrome = POSITIVE if due == Due.ACK else q.due_syndrome
    packet.msn = msn
    send_bare(t, q)
    q.due = Due.NOTHING
    if due == Due.ACK:
        count(t, Counter.ACKS_SENT)
    elif int64(q.due_syndrome) >> ACKNOWLEDGE_SHIFT == Acknowledge.RNR_NAK:
        count(t, Counter.RNR_NAKS_SENT)
    else:
        count(t, Counter.NAKS_SENT)
    if due == Due.FATAL:
        fail_queue_pair(t, q)

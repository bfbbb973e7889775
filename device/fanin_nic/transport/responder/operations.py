"""What a request does: SEND, WRITE, READ and atomics (sections 9.4 and 9.7.4).

Atomics are performed once, and answered as often as they are asked for. The driver performs them in the order of the
table of actions, and keeps the former values.
"""

import enum

import numpy as np
from numba import int64

from fanin_nic.native.compiled import internal
from fanin_nic.native.memory import address_of, fill_zero
from fanin_nic.transport.memory import find_region, invalidate, process_of, scatter, translate, write
from fanin_nic.transport.output import HAS_IETH, HAS_IMMDT, HEADER_BITS, append, complete_receive
from fanin_nic.transport.queue_pairs import drop_receive, has_receive, keep_receive, oldest_receive
from fanin_nic.transport.records.accessors import (
    U64,
    action_at,
    count,
    is_within,
    make_ready,
    original_index,
    original_row,
    packets_of,
    psn_after,
    response_index,
    response_row,
    sges_of_receive,
)
from fanin_nic.transport.records.actions import ActionKind
from fanin_nic.transport.records.tables import RESPONSE, RESPONSES, Counter, Receiving
from fanin_wire.rocev2 import (
    ACKNOWLEDGE_SHIFT,
    ATOMIC_BYTES,
    MAX_MESSAGE,
    Acknowledge,
    Nak,
    Operation,
    Part,
    Transport,
    syndrome,
)
from fanin_wire.verbs import MAX_RD_ATOMIC, Access, CompletionFlag, CompletionOpcode, CompletionStatus

RESPONSE_SIZE = U64(RESPONSE.itemsize)


class Verdict(enum.IntEnum):
    """What becomes of the expected request."""

    ACCEPTED = 0
    NOT_READY = 1  # no receive request: RNR NAK
    INVALID = 2  # NAK invalid request
    ACCESS = 3  # NAK remote access error
    OPERATION = 4  # NAK remote operational error


NAKS = np.zeros(len(Verdict), np.uint8)  # syndromes
NAKS[Verdict.INVALID] = syndrome(Acknowledge.NAK, Nak.INVALID_REQUEST)
NAKS[Verdict.ACCESS] = syndrome(Acknowledge.NAK, Nak.REMOTE_ACCESS)
NAKS[Verdict.OPERATION] = syndrome(Acknowledge.NAK, Nak.REMOTE_OPERATIONAL)
RNR = Acknowledge.RNR_NAK << ACKNOWLEDGE_SHIFT
REFUSALS = np.zeros(len(Verdict), np.uint8)  # counters
REFUSALS[Verdict.INVALID] = Counter.REFUSED_INVALID
REFUSALS[Verdict.ACCESS] = Counter.REFUSED_ACCESS
REFUSALS[Verdict.OPERATION] = Counter.REFUSED_OPERATION


@internal
def rnr_syndrome(q):
    """Syndrome of an RNR NAK with the queue pair's time."""
    return RNR | int64(q.rnr_timer)


# SEND


@internal
def on_send(t, q, packet, part, data, length):
    """The expected packet of a SEND; returns a Verdict."""
    if not fits_in_sequence(q, part, Receiving.SEND) or not is_length_of_part(q, part, length):
        return Verdict.INVALID
    if part in (Part.FIRST, Part.ONLY):
        if not has_receive(t, q):
            return Verdict.NOT_READY
        q.message_length = 0
    request, total = oldest_receive(t, q), int64(q.message_length) + length
    if U64(total) > request.length or total > MAX_MESSAGE:
        reject_message(t, q, packet, CompletionStatus.LOC_LEN_ERR)
        return Verdict.INVALID
    sges = sges_of_receive(request)
    if not scatter(t, q, sges, int64(request.sge_count), int64(q.message_length), data, length):
        reject_message(t, q, packet, CompletionStatus.LOC_PROT_ERR)
        return Verdict.OPERATION
    q.message_length = total
    q.receiving = Receiving.SEND
    if part in (Part.LAST, Part.ONLY):
        return end_message(t, q, packet)
    keep_receive(t, q)
    return Verdict.ACCEPTED


@internal
def end_message(t, q, packet):
    """The last packet of a SEND is in; returns a Verdict."""
    q.receiving = Receiving.NOTHING
    if int64(HEADER_BITS[packet.opcode]) & HAS_IETH and not invalidate(t, q, packet.invalidated_rkey):
        reject_message(t, q, packet, CompletionStatus.REM_INV_REQ_ERR)
        return Verdict.INVALID
    finish_receive(t, q, packet, CompletionStatus.SUCCESS, CompletionOpcode.RECV)
    q.msn = psn_after(q.msn, 1)
    return Verdict.ACCEPTED


@internal
def reject_message(t, q, packet, status):
    """A message can not be taken. Of RC it ends the receive request; of UC it is dropped, and the request stays."""
    if q.kind == Transport.RC:
        finish_receive(t, q, packet, status, CompletionOpcode.RECV)


@internal
def finish_receive(t, q, packet, status, opcode):
    """Complete the oldest receive request, with what the message's last packet brings beside data."""
    request = oldest_receive(t, q)
    action = action_at(t, U64(complete_receive(t, q, request, status, opcode, q.message_length)))
    drop_receive(t, q)
    if status != CompletionStatus.SUCCESS:
        return
    bits = int64(HEADER_BITS[packet.opcode])
    action.solicited = packet.solicited
    if bits & HAS_IMMDT:
        action.flags = CompletionFlag.WITH_IMM
        action.immediate = packet.immdt
    elif bits & HAS_IETH:
        action.flags = CompletionFlag.WITH_INV
        action.immediate = packet.invalidated_rkey


# WRITE


@internal
def on_write(t, q, packet, part, data, length):
    """The expected packet of a WRITE; returns a Verdict."""
    begins, ends = part in (Part.FIRST, Part.ONLY), part in (Part.LAST, Part.ONLY)
    if not int64(q.access) & Access.REMOTE_WRITE or not fits_in_sequence(q, part, Receiving.WRITE):
        return Verdict.INVALID
    left = int64(packet.dlen) if begins else int64(q.write_left)
    if left > MAX_MESSAGE or not is_length_of_part(q, part, length) or not is_rest(left, ends, length):
        return Verdict.INVALID
    rkey, address = (packet.rkey, packet.va) if begins else (q.write_rkey, q.write_address)
    found = find_region(t, q, rkey, address, left, Access.REMOTE_WRITE) if left else 0
    if left and not found:
        return Verdict.ACCESS
    with_immediate = ends and int64(HEADER_BITS[packet.opcode]) & HAS_IMMDT != 0
    if with_immediate and not has_receive(t, q):
        return Verdict.NOT_READY
    if begins:
        q.message_length = left
        q.write_rkey = rkey
    if length:
        write(t, q, found, address, data, length)
    q.write_address = address + U64(length)
    q.write_left = left - length
    q.receiving = Receiving.NOTHING if ends else Receiving.WRITE
    if ends:
        q.msn = psn_after(q.msn, 1)
    if with_immediate:
        finish_receive(t, q, packet, CompletionStatus.SUCCESS, CompletionOpcode.RECV_RDMA_WITH_IMM)
    return Verdict.ACCEPTED


@internal
def is_rest(left, ends, length):
    """Whether a packet with `length` of the `left` bytes ends the message if and only if it says so."""
    return length == left if ends else length < left


@internal
def fits_in_sequence(q, part, receiving):
    """Whether a part of a message of kind `receiving` may come now."""
    if part in (Part.FIRST, Part.ONLY):
        return q.receiving == Receiving.NOTHING
    return q.receiving == receiving


@internal
def is_length_of_part(q, part, length):
    """Whether a packet may have so many bytes: all but the last are full, and the last is not empty."""
    if part in (Part.FIRST, Part.MIDDLE):
        return length == int64(q.mtu)
    return length <= int64(q.mtu) and (part == Part.ONLY or length > 0)


# READ


@internal
def on_read(t, q, packet, length):
    """The expected READ; returns a Verdict."""
    if not int64(q.access) & Access.REMOTE_READ or q.receiving != Receiving.NOTHING:
        return Verdict.INVALID
    if length or packet.dlen > MAX_MESSAGE:
        return Verdict.INVALID
    if q.response_count >= q.most_responses:
        return Verdict.INVALID
    if not may_read(t, q, packet):
        return Verdict.ACCESS
    q.msn = psn_after(q.msn, 1)
    add_read(t, q, packet, 0)
    return Verdict.ACCEPTED


@internal
def repeat_read(t, q, packet, behind):
    """A READ, or the rest of one, that was answered `behind` packets before the expected one. It is answered again,
    unless its first packet is still to be sent."""
    refused = not int64(q.access) & Access.REMOTE_READ or packet.dlen > MAX_MESSAGE
    if refused or packets_of(packet.dlen, q.mtu) > behind or not may_read(t, q, packet):
        count(t, Counter.DROP_DUPLICATE)
    elif not is_waiting(t, q, packet.psn):
        if may_repeat(q):
            add_read(t, q, packet, 1)
        else:
            count(t, Counter.DROP_DUPLICATE)


@internal
def may_read(t, q, packet):
    """Whether the memory of a READ may be read."""
    return packet.dlen == 0 or find_region(t, q, packet.rkey, packet.va, packet.dlen, Access.REMOTE_READ) != 0


@internal
def is_waiting(t, q, psn):
    """Whether the packet of a response with a PSN is still to be sent."""
    for step in range(responses(q)):
        response = response_row(t, response_index(q, int64(q.response_head) + step))
        start = psn_after(response.first_psn, response.done)
        if is_within(psn, start, psn_after(response.first_psn, response.packets)):
            return True
    return False


@internal
def add_read(t, q, packet, is_repetition):
    """Enter the response to a read."""
    response = response_row(t, response_index(q, new_response(q, is_repetition)))
    fill_zero(address_of(response), RESPONSE_SIZE)
    response.first_psn = packet.psn
    response.packets = packets_of(packet.dlen, q.mtu)
    response.length = packet.dlen
    response.address = packet.va
    response.rkey = packet.rkey
    response.msn = q.msn
    response.is_repetition = is_repetition
    make_ready(t, q)


# Atomics


@internal
def on_atomic(t, q, packet, operation, length):
    """The expected atomic; returns a Verdict."""
    if not int64(q.access) & Access.REMOTE_ATOMIC or q.receiving != Receiving.NOTHING or length:
        return Verdict.INVALID
    if packet.va & U64(ATOMIC_BYTES - 1) or q.response_count >= q.most_responses:
        return Verdict.INVALID
    found = find_region(t, q, packet.rkey, packet.va, ATOMIC_BYTES, Access.REMOTE_ATOMIC)
    if not found:
        return Verdict.ACCESS
    original = original_row(t, original_index(q, q.originals))
    original.psn = packet.psn
    original.is_set = 1
    kind = ActionKind.COMPARE_SWAP if operation == Operation.COMPARE_SWAP else ActionKind.FETCH_ADD
    action = action_at(t, U64(append(t, kind)))
    action.queue_pair = q.index
    action.process = process_of(t, found)
    action.remote = translate(t, found, packet.va)
    action.payload = address_of(original)
    action.operand = packet.swap
    action.compare = packet.compare
    q.originals += 1
    q.msn = psn_after(q.msn, 1)
    add_original(t, q, packet, address_of(original), 0)
    return Verdict.ACCEPTED


@internal
def repeat_atomic(t, q, packet):
    """Answer an atomic that was performed before with its former value."""
    for age in range(1, MAX_RD_ATOMIC + 1):  # the newest first, as PSNs repeat
        original = original_row(t, original_index(q, int64(q.originals) - age))
        if original.is_set and original.psn == packet.psn and may_repeat(q):
            add_original(t, q, packet, address_of(original), 1)
            return
    count(t, Counter.DROP_DUPLICATE)


@internal
def add_original(t, q, packet, address, is_repetition):
    """Enter the response to an atomic. address: of its ORIGINAL."""
    response = response_row(t, response_index(q, new_response(q, is_repetition)))
    fill_zero(address_of(response), RESPONSE_SIZE)
    response.first_psn = packet.psn
    response.packets = 1
    response.address = address
    response.msn = q.msn
    response.is_atomic = 1
    response.is_repetition = is_repetition
    make_ready(t, q)


# Responses


@internal
def new_response(q, is_repetition):
    """Free-running number of a new response, for which there is room; the caller fills it in."""
    counter = int64(q.response_tail)
    q.response_tail += 1
    if not is_repetition:
        q.response_count += 1
    return counter


@internal
def may_repeat(q):
    """Whether there is room for the response to a repeated request. Half of the room is kept for new ones."""
    return responses(q) - int64(q.response_count) < RESPONSES // 2


@internal
def responses(q):
    """Incomplete responses."""
    return (int64(q.response_tail) - int64(q.response_head)) & 0xFFFFFFFF

"""SENDs: a message goes to the oldest receive request (sections 9.4.1 and 9.7.4)."""

from numba import int64

from fanin_nic.native.compiled import internal
from fanin_nic.transport.memory.invalidation import invalidate
from fanin_nic.transport.memory.pieces import scatter
from fanin_nic.transport.output.completions import complete_receive
from fanin_nic.transport.output.headers import HAS_IETH, HAS_IMMDT, HEADER_BITS
from fanin_nic.transport.queue_pairs.receive_queue import drop_receive, has_receive, keep_receive, oldest_receive
from fanin_nic.transport.records.accessors import U64, action_at, sges_of_receive
from fanin_nic.transport.records.psn import psn_after
from fanin_nic.transport.records.tables import Receiving
from fanin_nic.transport.responder.verdicts import Verdict
from fanin_wire.rocev2 import MAX_MESSAGE, Part, Transport
from fanin_wire.verbs import CompletionFlag, CompletionOpcode, CompletionStatus


@internal
def is_length_of_part(q, part, length):
    """Whether a packet may have so many bytes: all but the last are full, and the last is not empty."""
    if part in (Part.FIRST, Part.MIDDLE):
        return length == int64(q.mtu)
    return length <= int64(q.mtu) and (part == Part.ONLY or length > 0)


@internal
def fits_in_sequence(q, part, receiving):
    """Whether a part of a message of kind `receiving` may come now."""
    if part in (Part.FIRST, Part.ONLY):
        return q.receiving == Receiving.NOTHING
    return q.receiving == receiving


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
    pieces = sges_of_receive(request)
    if not scatter(t, q, pieces, int64(request.sge_count), int64(q.message_length), data, length):
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

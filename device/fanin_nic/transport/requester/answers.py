"""Acknowledgements, and the responses to reads and atomics (sections 9.4.4, 9.4.5 and 9.7.5)."""

import numpy as np
from numba import int64

from fanin_nic.native.compiled import internal
from fanin_nic.native.memory import address_of
from fanin_nic.transport.memory import scatter
from fanin_nic.transport.output import append, complete_send
from fanin_nic.transport.queue_pairs import fail_send
from fanin_nic.transport.records.accessors import (
    U64,
    action_at,
    count,
    is_within,
    make_ready,
    psn_after,
    psn_distance,
    send_index,
    send_row,
    sges_of_send,
)
from fanin_nic.transport.records.actions import ACTION, ActionKind
from fanin_nic.transport.records.tables import Counter, RequestState
from fanin_nic.transport.requester.start import (
    end_psn,
    go_back,
    is_answered,
    is_atomic,
    note_progress,
    resume_at,
    retry,
    retry_later,
    run_timer,
)
from fanin_wire.rocev2 import ACKNOWLEDGE_SHIFT, ACKNOWLEDGE_VALUE, ATOMIC_BYTES, RNR_TIMES_NS, Acknowledge, Nak, Part
from fanin_wire.verbs import CompletionStatus, RequestOpcode

RNR_TIMES = np.array(RNR_TIMES_NS, np.uint64)
OPERAND = U64(ACTION.fields["operand"][1])  # type: ignore[index]


@internal
def on_acknowledge(t, q, packet):
    """An ACKNOWLEDGE: the packets before its PSN have arrived, and the one with its PSN too, or it says why not."""
    psn, kind = int64(packet.psn), int64(packet.syndrome) >> ACKNOWLEDGE_SHIFT
    value = int64(packet.syndrome) & ACKNOWLEDGE_VALUE
    if not is_within(psn, q.unacknowledged, q.end_psn):
        count(t, Counter.DROP_STALE)
    elif kind == Acknowledge.ACK:
        acknowledge(t, q, psn_after(psn, 1))
    elif kind == Acknowledge.RNR_NAK:
        count(t, Counter.RNR_NAKS_RECEIVED)
        if acknowledge(t, q, psn):
            retry_later(t, q, t.now + RNR_TIMES[value])
    elif kind == Acknowledge.NAK and value <= Nak.REMOTE_OPERATIONAL:
        count(t, Counter.NAKS_RECEIVED)
        if acknowledge(t, q, psn):
            on_nak(t, q, value)
    else:
        count(t, Counter.DROP_RESPONSE)


@internal
def on_nak(t, q, code):
    """A NAK of the oldest unacknowledged packet."""
    if code == Nak.SEQUENCE:
        retry(t, q, int64(q.limit) // 2)
    elif code == Nak.INVALID_REQUEST:
        fail_send(t, q, CompletionStatus.REM_INV_REQ_ERR)
    elif code == Nak.REMOTE_ACCESS:
        fail_send(t, q, CompletionStatus.REM_ACCESS_ERR)
    else:
        fail_send(t, q, CompletionStatus.REM_OP_ERR)


@internal
def acknowledge(t, q, end):
    """All packets before `end` have arrived: complete the requests that end there. False if a response to one of them
    is lost, which was asked for again."""
    while q.send_head != q.send_tail and q.unacknowledged != end:
        request = send_row(t, send_index(t, q, q.send_head))
        if request.packets == 0:  # not begun
            break
        if is_answered(request.opcode):
            ask_again(t, q)
            return False
        if not is_within(end, request.first_psn, end_psn(request)):
            advance(t, q, end_psn(request))
            finish_oldest(t, q)
        else:
            advance(t, q, end)
    return True


@internal
def advance(t, q, psn):
    """The packets before `psn` are acknowledged."""
    acknowledged = psn_distance(psn, q.unacknowledged)
    behind = psn_distance(q.next_psn, q.unacknowledged) < acknowledged
    q.unacknowledged = psn
    if behind:  # the first copies arrive: nothing is known of those sent again
        resume_at(t, q, psn)
        acknowledged = 0
    note_progress(t, q, acknowledged)
    q.not_before = U64(0)
    run_timer(t, q)
    make_ready(t, q)


@internal
def finish_oldest(t, q):
    """The oldest request is complete."""
    complete_send(t, q, send_row(t, send_index(t, q, q.send_head)), CompletionStatus.SUCCESS)
    if q.send_next == q.send_head:
        q.send_next += 1
    q.send_head += 1


@internal
def ask_again(t, q):
    """A later packet was acknowledged, so a response before it is lost (an implied NAK, section 9.7.6). Go back once;
    further acknowledgements of packets in flight say the same."""
    if not q.went_back:
        q.went_back = 1
        count(t, Counter.IMPLIED_NAKS)
        go_back(t, q, int64(q.limit) // 2)


@internal
def on_read_response(t, q, packet, part, data, length):
    counter = request_of(t, q, packet)
    if counter < 0:
        return
    request = send_row(t, send_index(t, q, counter))
    number = psn_distance(packet.psn, request.first_psn)
    offset = number * int64(q.mtu)
    is_last = number == int64(request.packets) - 1
    ends = part != Part.FIRST and part != Part.MIDDLE
    is_whole = length == min(int64(request.length) - offset, int64(q.mtu))
    if request.opcode != RequestOpcode.RDMA_READ or not is_whole or ends != is_last:
        count(t, Counter.DROP_RESPONSE)
    elif is_expected(t, q, packet, counter):
        if scatter(t, q, sges_of_send(request), int64(request.sge_count), offset, data, length):
            take_response(t, q, request, is_last)
        else:
            fail_send(t, q, CompletionStatus.LOC_PROT_ERR)


@internal
def on_atomic_acknowledge(t, q, packet):
    counter = request_of(t, q, packet)
    if counter < 0:
        return
    request = send_row(t, send_index(t, q, counter))
    if not is_atomic(request.opcode):
        count(t, Counter.DROP_RESPONSE)
        return
    if not is_expected(t, q, packet, counter):
        return
    original = action_at(t, U64(append(t, ActionKind.NONE)))  # keeps the value until it is written
    original.operand = packet.original
    place = address_of(original) + OPERAND
    if scatter(t, q, sges_of_send(request), int64(request.sge_count), 0, place, ATOMIC_BYTES):
        take_response(t, q, request, True)
    else:
        fail_send(t, q, CompletionStatus.LOC_PROT_ERR)


@internal
def request_of(t, q, packet):
    """Free-running number of the request of a response; -1, and counted, if it is not in flight."""
    psn = int64(packet.psn)
    counter = find_request(t, q, psn) if is_within(psn, q.unacknowledged, q.end_psn) else -1
    if counter < 0:
        count(t, Counter.DROP_STALE)
    return counter


@internal
def find_request(t, q, psn):
    """Free-running number of the request in flight that has a PSN; -1 if none has."""
    counter = int64(q.send_head)
    while counter != int64(q.send_tail):
        request = send_row(t, send_index(t, q, counter))
        if request.packets == 0:
            return -1
        if is_within(psn, request.first_psn, end_psn(request)):
            return counter
        counter = (counter + 1) & 0xFFFFFFFF
    return -1


@internal
def is_expected(t, q, packet, counter):
    """Whether a response to the request `counter` is the next one. It acknowledges all requests before its own."""
    request = send_row(t, send_index(t, q, counter))
    start = request.first_psn
    if is_within(q.unacknowledged, start, end_psn(request)):
        start = q.unacknowledged
    if acknowledge(t, q, start) and counter == int64(q.send_head):
        if packet.psn == q.unacknowledged:
            return True
        if request.opcode == RequestOpcode.RDMA_READ:
            ask_again(t, q)
    count(t, Counter.DROP_SEQUENCE)
    return False


@internal
def take_response(t, q, request, is_last):
    """A response was taken: the next one is awaited, or the request is complete."""
    if is_last:
        request.state = RequestState.ANSWERED
        q.reads -= 1
    advance(t, q, psn_after(q.unacknowledged, 1))
    if is_last:
        finish_oldest(t, q)

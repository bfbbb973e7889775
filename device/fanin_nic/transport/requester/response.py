"""Responses: the data of reads, and the former value of an atomic (sections 9.4.4, 9.4.5 and 9.7.6)."""

from numba import int64

from fanin_nic.native.compiled import internal
from fanin_nic.native.memory import address_of
from fanin_nic.transport.memory.pieces import scatter
from fanin_nic.transport.output.action_table import append
from fanin_nic.transport.queue_pairs.failure import fail_send
from fanin_nic.transport.records.accessors import U64, action_at, count, send_index, send_row, sges_of_send
from fanin_nic.transport.records.actions import ACTION, ActionKind
from fanin_nic.transport.records.psn import is_within, psn_after, psn_distance
from fanin_nic.transport.records.tables import Counter, RequestState
from fanin_nic.transport.requester.acknowledge import acknowledge, advance, ask_again, finish_oldest
from fanin_nic.transport.requester.start import end_psn, is_atomic
from fanin_wire.rocev2 import ATOMIC_BYTES, Part
from fanin_wire.verbs import CompletionStatus, RequestOpcode

OPERAND = U64(ACTION.fields["operand"][1])  # type: ignore[index]


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
def request_of(t, q, packet):
    """Free-running number of the request of a response; -1, and counted, if it is not in flight."""
    psn = int64(packet.psn)
    counter = find_request(t, q, psn) if is_within(psn, q.unacknowledged, q.end_psn) else -1
    if counter < 0:
        count(t, Counter.DROP_STALE)
    return counter


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
def on_read_response(t, q, packet, part, data, length):
    counter = request_of(t, q, packet)
    if counter < 0:
        return
    request = send_row(t, send_index(t, q, counter))
    number = psn_distance(packet.psn, request.first_psn)
    offset = number * int64(q.mtu)
    is_last = number == int64(request.packets) - 1
    ends = part != Part.FIRST and part != Part.MIDDLE
    if (
        request.opcode != RequestOpcode.RDMA_READ
        or length != min(int64(request.length) - offset, int64(q.mtu))
        or ends != is_last
    ):
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
def take_response(t, q, request, is_last):
    """A response was taken: the next one is awaited, or the request is complete."""
    if is_last:
        request.state = RequestState.ANSWERED
        q.reads -= 1
    advance(t, q, psn_after(q.unacknowledged, 1))
    if is_last:
        finish_oldest(t, q)

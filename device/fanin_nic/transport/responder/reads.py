"""RDMA READs: each becomes a response, sent as there is room (sections 9.4.4, 9.7.4, 9.7.5)."""

from numba import int64

from fanin_nic.native.compiled import internal
from fanin_nic.native.memory import address_of, fill_zero
from fanin_nic.transport.memory.regions import find_region
from fanin_nic.transport.records.accessors import U64, count, make_ready, response_index, response_row
from fanin_nic.transport.records.psn import is_within, packets_of, psn_after
from fanin_nic.transport.records.tables import RESPONSE, RESPONSES, Counter, Receiving
from fanin_nic.transport.responder.verdicts import Verdict
from fanin_wire.rocev2 import MAX_MESSAGE
from fanin_wire.verbs import Access

RESPONSE_SIZE = U64(RESPONSE.itemsize)


@internal
def responses(q):
    """Incomplete responses."""
    return (int64(q.response_tail) - int64(q.response_head)) & 0xFFFFFFFF


@internal
def may_repeat(q):
    """Whether there is room for the response to a repeated request. Half of the room is kept for new ones."""
    return responses(q) - int64(q.response_count) < RESPONSES // 2


@internal
def may_read(t, q, packet):
    """Whether the memory of a READ may be read."""
    return packet.dlen == 0 or find_region(t, q, packet.rkey, packet.va, packet.dlen, Access.REMOTE_READ) != 0


@internal
def new_response(q, is_repetition):
    """Free-running number of a new response, for which there is room; the caller fills it in."""
    counter = int64(q.response_tail)
    q.response_tail += 1
    if not is_repetition:
        q.response_count += 1
    return counter


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


@internal
def on_read(t, q, packet, length):
    """The expected READ; returns a Verdict."""
    if (
        not int64(q.access) & Access.REMOTE_READ
        or q.receiving != Receiving.NOTHING
        or length
        or packet.dlen > MAX_MESSAGE
    ):
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
def is_waiting(t, q, psn):
    """Whether the packet of a response with a PSN is still to be sent."""
    for step in range(responses(q)):
        response = response_row(t, response_index(q, int64(q.response_head) + step))
        start = psn_after(response.first_psn, response.done)
        if is_within(psn, start, psn_after(response.first_psn, response.packets)):
            return True
    return False

"""Sending: work requests enter their queues and become packets (section 9.7.3).

A packet follows from its request and its PSN alone, so that sending again is sending from an earlier PSN on (go-back-N,
section 9.7.6).

A payload may be unreadable because its process is gone: then its request ends in error. The driver finds out while it
builds the packet, when the request may be complete (UC, UD) and others may follow it in the table of actions. They are
taken back, as if the transport had refused the request at this packet.
"""

import numpy as np
from numba import int64

from fanin_nic.native.compiled import internal
from fanin_nic.native.memory import address_of, copy
from fanin_nic.transport.memory import LOCAL_READ, allows, gather, length_of
from fanin_nic.transport.output import OUTGOING, add_piece, complete_send, has_room, new_packet, start_packet
from fanin_nic.transport.queue_pairs import fail_send
from fanin_nic.transport.records.accessors import (
    PSN_MODULUS,
    U64,
    action_at,
    add,
    count,
    make_ready,
    packet_at,
    packets_of,
    psn_after,
    psn_distance,
    queue_pair_at,
    receive_index,
    receive_row,
    send_index,
    send_row,
    sges_of_receive,
    sges_of_send,
    shared_index,
    shared_row,
)
from fanin_nic.transport.records.actions import ActionKind
from fanin_nic.transport.records.tables import Counter, RequestState
from fanin_nic.transport.requester.start import (
    MAX_MESSAGE,
    end_psn,
    is_answered,
    is_atomic,
    message_length,
    resume_at,
    run_timer,
    start_request,
)
from fanin_wire.abi import MAX_SGE, RECEIVE_WQE, SEND_WQE
from fanin_wire.rocev2 import CODES, Transport
from fanin_wire.verbs import CompletionOpcode, CompletionStatus, QueuePairState, RequestOpcode, SendFlag

SEND_WQE_SIZE, RECEIVE_WQE_SIZE = U64(SEND_WQE.itemsize), U64(RECEIVE_WQE.itemsize)
OWN_QKEY = 0x80000000  # in place of a remote key (section 10.2)
ACKNOWLEDGEMENTS = 4  # asked for within a window


_SENDS, _WRITES = ("SEND", "SEND_WITH_IMM", "SEND_WITH_INV"), ("RDMA_WRITE", "RDMA_WRITE_WITH_IMM")


# Work requests enter their queues


@internal
def can_post_send(t, q):
    return (int64(q.send_tail) - int64(q.send_head)) & 0xFFFFFFFF < int64(t.send_depth)


@internal
def can_post_receive(t, q):
    """False for a queue pair with a shared queue."""
    return not q.shared_queue and (int64(q.receive_tail) - int64(q.receive_head)) & 0xFFFFFFFF < int64(t.receive_depth)


@internal
def post_send(t, q, wqe):
    """Take the SEND_WQE at an address, after `can_post_send`."""
    request = send_row(t, send_index(t, q, q.send_tail))
    copy(address_of(request), U64(wqe), SEND_WQE_SIZE)
    request.state = RequestState.POSTED
    request.length = 0
    request.packets = 0
    q.send_tail += 1
    make_ready(t, q)


@internal
def post_receive(t, q, wqe):
    """Take the RECEIVE_WQE at an address, after `can_post_receive`."""
    fill_receive(receive_row(t, receive_index(t, q, q.receive_tail)), wqe)
    q.receive_tail += 1
    if q.state == QueuePairState.ERR:
        make_ready(t, q)


@internal
def post_shared(t, shared, wqe):
    """Take the RECEIVE_WQE at an address for a shared queue, after `can_post_shared`."""
    fill_receive(shared_row(t, shared_index(t, shared, shared.tail)), wqe)
    shared.tail += 1


@internal
def fill_receive(request, wqe):
    """Make the RECEIVE_WQE at an address a request."""
    copy(address_of(request), U64(wqe), RECEIVE_WQE_SIZE)
    request.sge_count = min(int64(request.sge_count), MAX_SGE)
    request.length = length_of(sges_of_receive(request), int64(request.sge_count))


# Requests are sent as window and order allow


@internal
def send_requests(t, q, budget):
    """Send up to `budget` packets; returns whether more could be sent at once."""
    if q.state != QueuePairState.RTS and q.state != QueuePairState.SQD:
        return False
    for _ in range(budget):
        if not may_send(t, q):
            return False
        if not has_room(t):
            return True
        send_next(t, q)
        if q.state != QueuePairState.RTS and q.state != QueuePairState.SQD:
            return False
    return may_send(t, q)


@internal
def may_send(t, q):
    """Whether the next packet may be sent now. This call begins, or refuses, a new request."""
    if q.send_next == q.send_tail or q.not_before > t.now:
        return False
    request = send_row(t, send_index(t, q, q.send_next))
    if request.state == RequestState.POSTED and not begin(t, q, request):
        return False
    if request.state == RequestState.REFUSED:
        refuse(t, q, request)
        return False
    return is_in_window(q)


@internal
def begin(t, q, request):
    """Begin a request if the rules of order allow it now; returns whether it was begun, or refused."""
    if q.state == QueuePairState.SQD or (request.flags & SendFlag.FENCE and q.reads > 0):
        return False
    if is_answered(request.opcode) and q.most_reads > 0 and q.reads >= q.most_reads:
        return False
    if q.kind == Transport.RC and not psns_suffice(t, q, message_length(request)):
        return False
    start_request(t, q, request)
    return True


@internal
def psns_suffice(t, q, length):
    """Whether half of all PSNs stay unused; otherwise the two sides could not tell old ones from new ones."""
    under_way = psn_distance(q.next_psn, q.unacknowledged)
    return under_way == 0 or length > MAX_MESSAGE or under_way + packets_of(length, q.mtu) < PSN_MODULUS // 2


@internal
def is_in_window(q):
    """Whether a packet need not wait for acknowledgements."""
    return q.kind != Transport.RC or psn_distance(q.next_psn, q.unacknowledged) < int64(q.limit)


@internal
def send_next(t, q):
    """Send the packet with the next PSN."""
    request = send_row(t, send_index(t, q, q.send_next))
    psn = int64(q.next_psn)
    behind = end_psn(request) if is_answered(request.opcode) else psn_after(psn, 1)
    is_last = behind == end_psn(request)
    if not send_packet(t, q, request, psn, asks_for_acknowledgement(q, is_last)):
        request.state = RequestState.REFUSED
        request.status = CompletionStatus.LOC_PROT_ERR
        refuse(t, q, request)
        return
    if is_sent(q, psn):
        count(t, Counter.RESENT)
    q.next_psn = behind
    if not is_sent_up_to(q, behind):
        q.end_psn = behind
    if is_last:
        q.send_next += 1
    if q.kind == Transport.RC:
        run_timer(t, q)
    elif is_last:
        finish_unacknowledged(t, q, request)


@internal
def is_sent(q, psn):
    """Whether a PSN was sent before and is not acknowledged."""
    return psn_distance(psn, q.unacknowledged) < psn_distance(q.end_psn, q.unacknowledged)


@internal
def is_sent_up_to(q, psn):
    """Whether all PSNs before `psn` were sent before."""
    return psn_distance(psn, q.unacknowledged) <= psn_distance(q.end_psn, q.unacknowledged)


@internal
def asks_for_acknowledgement(q, is_last):
    """The last packet of a message asks, and some within a long one."""
    q.unasked += 1
    if q.kind != Transport.RC or not (is_last or int64(q.unasked) * ACKNOWLEDGEMENTS >= int64(q.limit)):
        return 0
    q.unasked = 0
    return 1


@internal
def finish_unacknowledged(t, q, request):
    """The last packet of a request of UC or UD is sent, which ends it."""
    complete_send(t, q, request, CompletionStatus.SUCCESS)
    q.send_head += 1
    q.unacknowledged = q.next_psn


@internal
def refuse(t, q, request):
    """The next request is REFUSED; it ends if it is the oldest."""
    if q.send_head == q.send_next:
        fail_send(t, q, request.status)


# The packet of a request with a PSN


def _codes(**names: str) -> np.ndarray:
    """BTH opcodes of RC, by opcode of a request."""
    table = np.zeros(16, np.uint8)
    for name, code in names.items():
        table[RequestOpcode[name]] = CODES[f"RC_{code}"]
    return table


FIRST = _codes(**dict.fromkeys(_SENDS, "SEND_FIRST"), **dict.fromkeys(_WRITES, "RDMA_WRITE_FIRST"))
MIDDLE = _codes(**dict.fromkeys(_SENDS, "SEND_MIDDLE"), **dict.fromkeys(_WRITES, "RDMA_WRITE_MIDDLE"))
LAST = _codes(
    SEND="SEND_LAST",
    SEND_WITH_IMM="SEND_LAST_WITH_IMMEDIATE",
    SEND_WITH_INV="SEND_LAST_WITH_INVALIDATE",
    RDMA_WRITE="RDMA_WRITE_LAST",
    RDMA_WRITE_WITH_IMM="RDMA_WRITE_LAST_WITH_IMMEDIATE",
)
ONLY = _codes(
    SEND="SEND_ONLY",
    SEND_WITH_IMM="SEND_ONLY_WITH_IMMEDIATE",
    SEND_WITH_INV="SEND_ONLY_WITH_INVALIDATE",
    RDMA_WRITE="RDMA_WRITE_ONLY",
    RDMA_WRITE_WITH_IMM="RDMA_WRITE_ONLY_WITH_IMMEDIATE",
    RDMA_READ="RDMA_READ_REQUEST",
    ATOMIC_CMP_AND_SWP="COMPARE_SWAP",
    ATOMIC_FETCH_AND_ADD="FETCH_ADD",
)


@internal
def send_packet(t, q, request, psn, asks):
    """Append the packet of a request with a PSN. asks: for an acknowledgement. False, without effect, if the memory of
    the request has lost its region meanwhile."""
    number = psn_distance(psn, request.first_psn)
    offset = number * int64(q.mtu)
    if request.opcode == RequestOpcode.RDMA_READ or is_atomic(request.opcode):
        ask(t, q, request, psn, offset)
        return True
    sges = sges_of_send(request)
    if not request.flags & SendFlag.INLINE and not allows(t, q, sges, int64(request.sge_count), LOCAL_READ):
        return False
    is_last = number == int64(request.packets) - 1
    length = min(int64(request.length) - offset, int64(q.mtu))
    new_packet(t, q, bth_opcode(q, request.opcode, number == 0, is_last), psn)
    packet = packet_at(t, OUTGOING)
    packet.ackreq = asks
    packet.solicited = is_last and request.flags & SendFlag.SOLICITED != 0
    packet.va = request.remote_address
    packet.rkey = request.rkey
    packet.dlen = request.length
    packet.immdt = request.immediate
    packet.invalidated_rkey = request.immediate
    destination = q.destination
    if q.kind == Transport.UD:
        destination = request.destination
        address_datagram(q, request, packet)
    index = start_packet(t, q, destination, length)
    name_request(t, q, index, psn)
    attach(t, q, request, index, offset, length)
    return True


@internal
def bth_opcode(q, opcode, is_first, is_last):
    begun = FIRST[opcode] if is_first else MIDDLE[opcode]
    ended = ONLY[opcode] if is_first else LAST[opcode]
    return int64(ended if is_last else begun) + int64(q.kind)


@internal
def ask(t, q, request, psn, offset):
    """Append the request of an atomic, or of a read from byte `offset` on."""
    new_packet(t, q, bth_opcode(q, request.opcode, True, True), psn)
    packet = packet_at(t, OUTGOING)
    packet.ackreq = 1
    packet.va = request.remote_address + U64(offset)
    packet.rkey = request.rkey
    packet.dlen = int64(request.length) - offset
    is_add = request.opcode == RequestOpcode.ATOMIC_FETCH_AND_ADD
    packet.compare = U64(0) if is_add else request.compare_add
    packet.swap = request.compare_add if is_add else request.swap
    start_packet(t, q, q.destination, 0)


@internal
def name_request(t, q, index, psn):
    """Note the request of a SEND."""
    action = action_at(t, U64(index))
    action.of_request = 1
    action.request = q.send_next
    action.psn = psn


@internal
def address_datagram(q, request, packet):
    """The fields of a datagram that name sender and receiver."""
    packet.dqpn = request.remote_qpn
    packet.sqpn = q.qpn
    packet.qkey = q.qkey if request.remote_qkey & OWN_QKEY else request.remote_qkey


@internal
def attach(t, q, request, index, offset, length):
    if not request.flags & SendFlag.INLINE:
        gather(t, q, index, sges_of_send(request), int64(request.sge_count), offset, length)
    elif length:
        add_piece(t, index, 0, sges_of_send(request) + U64(offset), length)


# A packet whose payload is unreadable


@internal
def fail_unreadable(t, number):
    """The payload of the action `number`, the SEND of a requester, is unreadable."""
    action = action_at(t, U64(number))
    q = queue_pair_at(t, U64(action.queue_pair))
    take_back(t, q, int64(number))
    if q.state == QueuePairState.ERR:  # it failed in the same turn: its requests have their completions
        return
    if q.kind == Transport.RC:
        resume_at(t, q, action.psn)
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

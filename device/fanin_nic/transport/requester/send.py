"""Sending: the packets of requests, in order, as far as window and rules of order allow (section 9.7.3)."""

from numba import int64

from fanin_nic.native.compiled import internal
from fanin_nic.transport.output.action_table import has_room
from fanin_nic.transport.output.completions import complete_send
from fanin_nic.transport.queue_pairs.failure import fail_send
from fanin_nic.transport.records.accessors import count, send_index, send_row
from fanin_nic.transport.records.psn import MODULUS, packets_of, psn_after, psn_distance
from fanin_nic.transport.records.tables import Counter, RequestState
from fanin_nic.transport.requester.segment import send_packet
from fanin_nic.transport.requester.start import MAX_MESSAGE, end_psn, is_answered, message_length, start
from fanin_nic.transport.requester.timer import run_timer
from fanin_wire.rocev2 import Transport
from fanin_wire.verbs import CompletionStatus, QueuePairState, SendFlag

ACKNOWLEDGEMENTS = 4  # asked for within a window


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
    start(t, q, request)
    return True


@internal
def psns_suffice(t, q, length):
    """Whether half of all PSNs stay unused; otherwise the two sides could not tell old ones from new ones."""
    under_way = psn_distance(q.next_psn, q.unacknowledged)
    return under_way == 0 or length > MAX_MESSAGE or under_way + packets_of(length, q.mtu) < MODULUS // 2


@internal
def refuse(t, q, request):
    """The next request is REFUSED; it ends if it is the oldest."""
    if q.send_head == q.send_next:
        fail_send(t, q, request.status)


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

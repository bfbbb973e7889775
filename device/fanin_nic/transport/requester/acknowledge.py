"""What acknowledgements say of the packets in flight (sections 9.7.5.1 and 9.7.5.2)."""

import numpy as np
from numba import int64

from fanin_nic.native.compiled import internal
from fanin_nic.transport.output.completions import complete_send
from fanin_nic.transport.queue_pairs.failure import fail_send
from fanin_nic.transport.records.accessors import U64, count, make_ready, send_index, send_row
from fanin_nic.transport.records.psn import is_within, psn_after, psn_distance
from fanin_nic.transport.records.tables import Counter
from fanin_nic.transport.requester.retry import go_back, note_progress, position, retry, retry_later
from fanin_nic.transport.requester.start import end_psn, is_answered
from fanin_nic.transport.requester.timer import run_timer
from fanin_wire.rocev2 import ACKNOWLEDGE_SHIFT, ACKNOWLEDGE_VALUE, RNR_TIMES_NS, Acknowledge, Nak
from fanin_wire.verbs import CompletionStatus

RNR_TIMES = np.array(RNR_TIMES_NS, np.uint64)


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
        position(t, q, psn)
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

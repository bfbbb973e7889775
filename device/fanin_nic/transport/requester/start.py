"""The start of a request, going back to an earlier PSN (go-back-N), and the timer (sections 9.7.3 and 9.7.6).

Packets sent again come on top of those still in flight. So a requester goes back with fewer packets in flight: one
after a time-out, half as many after a NAK. Each acknowledged packet lets one more be in flight, up to the window,
except for acknowledgements of more than was sent again. Those are of the first copies: the other side was slow, and has
lost nothing (as in TCP's F-RTO, RFC 5682).

The other side may only be slow. So each time-out without progress doubles the next one, up to four times the program's
time, which the section allows.
"""

from numba import int64

from fanin_nic.native.compiled import internal
from fanin_nic.transport.memory import LOCAL_READ, allows, length_of
from fanin_nic.transport.queue_pairs import fail_send
from fanin_nic.transport.records.accessors import (
    NEVER,
    U64,
    ZERO,
    count,
    is_within,
    make_ready,
    packets_of,
    psn_after,
    send_index,
    send_row,
    sges_of_send,
)
from fanin_nic.transport.records.tables import Counter, RequestState
from fanin_wire.abi import MAX_INLINE_DATA, MAX_SGE
from fanin_wire.rocev2 import ATOMIC_BYTES, MAX_MESSAGE, RETRIES_WITHOUT_LIMIT, Transport
from fanin_wire.verbs import Access, CompletionStatus, RequestOpcode, SendFlag

MAX_BACKOFF = 2  # the last time-outs are 2^2 times the first


# The start of a request


@internal
def start_request(t, q, request):
    """The request gets its PSNs, or is REFUSED."""
    request.status = check(t, q, request)
    if request.status != CompletionStatus.SUCCESS:
        request.state = RequestState.REFUSED
        return
    request.length = message_length(request)
    request.first_psn = q.next_psn
    request.packets = packets_of(request.length, q.mtu)
    request.state = RequestState.STARTED
    if is_answered(request.opcode):
        q.reads += 1


@internal
def check(t, q, request):
    """The status with which a request is refused, or SUCCESS."""
    opcode, length = request.opcode, message_length(request)
    if not is_supported(q, opcode) or request.sge_count > MAX_SGE:
        return CompletionStatus.LOC_QP_OP_ERR
    if request.flags & SendFlag.INLINE and (is_answered(opcode) or length > MAX_INLINE_DATA):
        return CompletionStatus.LOC_QP_OP_ERR if is_answered(opcode) else CompletionStatus.LOC_LEN_ERR
    longest = int64(q.mtu) if q.kind == Transport.UD else MAX_MESSAGE
    if length > longest or (is_atomic(opcode) and length != ATOMIC_BYTES):
        return CompletionStatus.LOC_LEN_ERR
    access = Access.LOCAL_WRITE if is_answered(opcode) else LOCAL_READ
    sges = sges_of_send(request)
    if not request.flags & SendFlag.INLINE and not allows(t, q, sges, int64(request.sge_count), access):
        return CompletionStatus.LOC_PROT_ERR
    return CompletionStatus.SUCCESS


@internal
def is_supported(q, opcode):
    """Whether a queue pair's service has an operation (section 9.4)."""
    if opcode in (RequestOpcode.SEND, RequestOpcode.SEND_WITH_IMM):
        return True
    if opcode in (RequestOpcode.RDMA_WRITE, RequestOpcode.RDMA_WRITE_WITH_IMM):
        return q.kind != Transport.UD
    is_allowed = opcode == RequestOpcode.SEND_WITH_INV or (is_answered(opcode) and q.most_reads > 0)
    return q.kind == Transport.RC and is_allowed


@internal
def is_answered(opcode):
    """Whether a request ends with a response that carries data, not with an acknowledgement."""
    return opcode == RequestOpcode.RDMA_READ or is_atomic(opcode)


@internal
def is_atomic(opcode):
    return opcode in (RequestOpcode.ATOMIC_CMP_AND_SWP, RequestOpcode.ATOMIC_FETCH_AND_ADD)


@internal
def message_length(request):
    """Bytes of a request's message."""
    if request.flags & SendFlag.INLINE:
        return int64(request.inline_length)
    return length_of(sges_of_send(request), int64(request.sge_count))


@internal
def end_psn(request):
    """The PSN behind the last one of a request."""
    return psn_after(request.first_psn, request.packets)


# Going back


@internal
def retry(t, q, limit):
    """Go back, unless this failed too often. limit: as of `go_back`."""
    if q.retries_left == 0:
        fail_send(t, q, CompletionStatus.RETRY_EXC_ERR)
        return
    q.retries_left -= 1
    go_back(t, q, limit)


@internal
def retry_later(t, q, until):
    """Go back at a given time, because the other side has no receive request (section 9.7.5.2). It lives, so all
    retries after time-outs are restored."""
    if q.rnr_left == 0:
        fail_send(t, q, CompletionStatus.RNR_RETRY_EXC_ERR)
        return
    if q.rnr_retry != RETRIES_WITHOUT_LIMIT:
        q.rnr_left -= 1
    q.retries_left = q.retry_count
    go_back(t, q, int64(q.limit) // 2)
    q.not_before = until
    t.next_deadline = min(t.next_deadline, until)


@internal
def go_back(t, q, limit):
    """Send again from the oldest unacknowledged packet on. limit: PSNs that may be in flight then."""
    q.limit = max(int64(1), int64(limit))
    resume_at(t, q, q.unacknowledged)
    q.timer_runs = 0
    q.deadline = NEVER
    q.unasked = 0
    make_ready(t, q)


@internal
def resume_at(t, q, psn):
    """The next packet is the one with a PSN that was sent before, or the first unsent one."""
    q.next_psn = psn
    q.send_next = q.send_head
    while q.send_next != q.send_tail:
        request = send_row(t, send_index(t, q, q.send_next))
        if request.packets == 0 or is_within(psn, request.first_psn, end_psn(request)):
            return
        q.send_next += 1


# The timer


@internal
def pass_time(t, q):
    """Send after the wait of an RNR NAK, or go back after a time-out."""
    if q.not_before > ZERO:
        if q.not_before <= t.now:
            q.not_before = ZERO
            make_ready(t, q)
    elif q.deadline <= t.now:
        q.deadline = NEVER
        q.timer_runs = 0
        q.backoff = min(int64(q.backoff) + 1, MAX_BACKOFF)
        count(t, Counter.TIMEOUTS)
        retry(t, q, 1)


@internal
def next_deadline(q):
    """When a queue pair next needs attention; 2^64 - 1: never."""
    return q.not_before if q.not_before > ZERO else q.deadline


@internal
def run_timer(t, q):
    """Start the timer if it does not run and something is in flight."""
    if q.timer_runs or q.timeout == ZERO or q.unacknowledged == q.end_psn:
        return
    q.timer_runs = 1
    q.deadline = t.now + (q.timeout << U64(q.backoff))
    t.next_deadline = min(t.next_deadline, q.deadline)


@internal
def note_progress(t, q, psns):
    """A new acknowledgement: the other side lives, and all retries are restored. psns: how many more may be in
    flight."""
    q.limit = min(int64(t.window), int64(q.limit) + psns)
    q.backoff = 0
    q.retries_left = q.retry_count
    q.rnr_left = q.rnr_retry
    q.went_back = 0
    q.timer_runs = 0
    q.deadline = NEVER

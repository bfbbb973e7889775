"""Going back: sending again from an earlier PSN on (go-back-N), within the limit of retries (section 9.7.6).

Packets sent again come on top of those still in flight. So a requester goes back with fewer packets in flight: one
after a time-out, half as many after a NAK. Each acknowledged packet lets one more be in flight, up to the window,
except for acknowledgements of more than was sent again. Those are of the first copies: the other side was slow, and has
lost nothing (as in TCP's F-RTO, RFC 5682).
"""

from numba import int64

from fanin_nic.native.compiled import internal
from fanin_nic.transport.queue_pairs.failure import fail_send
from fanin_nic.transport.records.accessors import NEVER, make_ready, send_index, send_row
from fanin_nic.transport.records.psn import is_within
from fanin_nic.transport.requester.start import end_psn
from fanin_wire.rocev2 import RETRIES_WITHOUT_LIMIT
from fanin_wire.verbs import CompletionStatus


@internal
def position(t, q, psn):
    """The next packet is the one with a PSN that was sent before, or the first unsent one."""
    q.next_psn = psn
    q.send_next = q.send_head
    while q.send_next != q.send_tail:
        request = send_row(t, send_index(t, q, q.send_next))
        if request.packets == 0 or is_within(psn, request.first_psn, end_psn(request)):
            return
        q.send_next += 1


@internal
def go_back(t, q, limit):
    """Send again from the oldest unacknowledged packet on. limit: PSNs that may be in flight then."""
    q.limit = max(int64(1), int64(limit))
    position(t, q, q.unacknowledged)
    q.timer_runs = 0
    q.deadline = NEVER
    q.unasked = 0
    make_ready(t, q)


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

"""The timer of a requester: how long it waits for an acknowledgement, or after an RNR NAK (section 9.7.6.1.3).

The other side may only be slow. So each time-out without progress doubles the next one, up to four times the program's
time, which the section allows.
"""

from numba import int64

from fanin_nic.native.compiled import internal
from fanin_nic.transport.records.accessors import NEVER, U64, ZERO, count, make_ready
from fanin_nic.transport.records.tables import Counter
from fanin_nic.transport.requester.retry import retry

MAX_BACKOFF = 2  # the last time-outs are 2^2 times the first


@internal
def run_timer(t, q):
    """Start the timer if it does not run and something is in flight."""
    if q.timer_runs or q.timeout == ZERO or q.unacknowledged == q.end_psn:
        return
    q.timer_runs = 1
    q.deadline = t.now + (q.timeout << U64(q.backoff))
    t.next_deadline = min(t.next_deadline, q.deadline)


@internal
def next_deadline(q):
    """When a queue pair next needs attention; 2^64 - 1: never."""
    return q.not_before if q.not_before > ZERO else q.deadline


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

"""The end of a queue pair in error (section 10.3.1): its requests are flushed, each with one completion.

A connection ends as a whole. Of a shared receive queue only the request that the queue pair took is flushed. A failed
request to send of UC or UD ends only the send queue (state SQE).
"""

from fanin_nic.native.compiled import internal, internal_for
from fanin_nic.transport.output.action_table import has_room
from fanin_nic.transport.output.completions import complete_receive, complete_send
from fanin_nic.transport.queue_pairs.receive_queue import drop_receive, oldest_receive
from fanin_nic.transport.records.accessors import (
    NEVER,
    count,
    make_ready,
    send_index,
    send_row,
)
from fanin_nic.transport.records.tables import QUEUE_PAIR, TRANSPORT, Counter, Due, Receiving
from fanin_wire.rocev2 import Transport
from fanin_wire.verbs import CompletionOpcode, CompletionStatus, QueuePairState


@internal_for(TRANSPORT, QUEUE_PAIR)
def fail_queue_pair(t, q):
    """Once. Its requests are flushed as the table of actions has room."""
    if q.state == QueuePairState.ERR:
        return
    q.state = QueuePairState.ERR
    q.receiving = Receiving.NOTHING
    q.due = Due.NOTHING
    q.response_head = q.response_tail
    q.response_count = 0
    stop_sending(q)
    count(t, Counter.ERRORS)
    make_ready(t, q)


@internal
def stop_sending(q):
    """Nothing is in flight any more."""
    q.deadline = NEVER
    q.not_before = 0
    q.timer_runs = 0
    q.send_next = q.send_head
    q.unacknowledged = q.next_psn
    q.end_psn = q.next_psn
    q.reads = 0


@internal
def fail_send(t, q, status):
    """End the oldest request to send with an error, and so the connection, or the send queue."""
    request = send_row(t, send_index(t, q, q.send_head))
    complete_send(t, q, request, status)
    q.send_head += 1
    if q.kind == Transport.RC:
        fail_queue_pair(t, q)
    else:
        q.state = QueuePairState.SQE
        stop_sending(q)
        count(t, Counter.ERRORS)
        make_ready(t, q)


@internal
def flush(t, q):
    """Flush requests of a queue pair in error while there is room; returns whether some are left."""
    while q.send_head != q.send_tail:
        if not has_room(t):
            return True
        complete_send(t, q, send_row(t, send_index(t, q, q.send_head)), CompletionStatus.WR_FLUSH_ERR)
        q.send_head += 1
    q.send_next = q.send_head
    while q.state == QueuePairState.ERR and q.receive_head != q.receive_tail:
        if not has_room(t):
            return True
        complete_receive(t, q, oldest_receive(t, q), CompletionStatus.WR_FLUSH_ERR, CompletionOpcode.RECV, 0)
        drop_receive(t, q)
    return False

"""Queue pairs: their numbers, attributes and states, their receive requests, and their end in error (section 10.3.1).

A number comes back only after all incarnations, so that packets of an old queue pair do not reach a new one. The number
of collective traffic and the reserved ones are left out.

As in `ibv_modify_qp` a change of state demands some attributes, allows others, and refuses the rest.

Receive requests are those of the queue pair's own queue, or of a shared receive queue. A message of one packet ends the
oldest request of the shared queue. A longer one takes it: it becomes the only request of the queue pair's own queue,
and is completed or flushed as usual. If the message stays incomplete and ends no request (UC, or a reset), the request
goes back to its old place, for which room is kept.

In error the requests are flushed, each with one completion. A connection ends as a whole. Of a shared receive queue
only the request that the queue pair took is flushed. A failed request to send of UC or UD ends only the send queue
(state SQE).
"""

from typing import NamedTuple

from numba import int64

from fanin_nic.native.compiled import internal, internal_for
from fanin_nic.native.memory import address_of, copy
from fanin_nic.transport.output import complete_receive, complete_send, has_room
from fanin_nic.transport.records.accessors import (
    NEVER,
    U64,
    count,
    make_ready,
    receive_index,
    receive_row,
    send_index,
    send_row,
    shared_index,
    shared_queue_at,
    shared_row,
)
from fanin_nic.transport.records.tables import QUEUE_PAIR, RECEIVE_REQUEST, TRANSPORT, Counter, Due, Receiving
from fanin_wire.fields import COLLECTIVE_QPN
from fanin_wire.rocev2 import MAX_RETRIES, PATH_MTUS, PSN_BITS, QPN_BITS, RESERVED_QPNS, RNR_TIMES_NS, Transport
from fanin_wire.verbs import MAX_RD_ATOMIC, Attribute, CompletionOpcode, CompletionStatus, QueuePairState

REQUEST_SIZE = U64(RECEIVE_REQUEST.itemsize)
MAX_TIMEOUT = 31
A = Attribute
S = QueuePairState
ALWAYS = (S.RESET, S.ERR)  # any state may change to these, without attributes


# Numbers


class QueuePairNumbers:
    """rows: of the table of queue pairs, a power of two. incarnation: where to begin; different after a restart."""

    def __init__(self, rows: int, incarnation: int = 1) -> None:
        self._rows = rows
        self._incarnations = (1 << QPN_BITS) // rows
        self._incarnation = incarnation

    def number_of(self, row: int) -> int:
        while True:
            self._incarnation = (self._incarnation + 1) % self._incarnations
            number = self._incarnation * self._rows + row
            if number != COLLECTIVE_QPN and number not in RESERVED_QPNS:
                return number


# States and attributes


class AttributesInvalid(ValueError):
    """A queue pair can not be modified so; the message says why."""


class Change(NamedTuple):
    """The attributes that a change of state must have, and those that it may have."""

    required: A = A(0)
    optional: A = A(0)


_PORT = A.PKEY_INDEX | A.PORT
_RIGHTS = A.CUR_STATE | A.ACCESS_FLAGS
_PATH = A.AV | A.PATH_MTU | A.DEST_QPN | A.RQ_PSN
_LIMITS = A.TIMEOUT | A.RETRY_CNT | A.RNR_RETRY | A.MAX_QP_RD_ATOMIC
CHANGES: dict[Transport, dict[tuple[S, S], Change]] = {
    Transport.RC: {
        (S.RESET, S.INIT): Change(_PORT | A.ACCESS_FLAGS),
        (S.INIT, S.INIT): Change(A(0), _PORT | A.ACCESS_FLAGS),
        (S.INIT, S.RTR): Change(_PATH | A.MAX_DEST_RD_ATOMIC | A.MIN_RNR_TIMER, A.ACCESS_FLAGS | A.PKEY_INDEX),
        (S.RTR, S.RTS): Change(_LIMITS | A.SQ_PSN, _RIGHTS | A.MIN_RNR_TIMER),
        (S.RTS, S.RTS): Change(A(0), _RIGHTS | A.MIN_RNR_TIMER),
        (S.RTS, S.SQD): Change(A(0), A.EN_SQD_ASYNC_NOTIFY),
        (S.SQD, S.RTS): Change(A(0), _RIGHTS | A.MIN_RNR_TIMER),
        (S.SQD, S.SQD): Change(A(0), _PORT | A.AV | _LIMITS | A.MAX_DEST_RD_ATOMIC | A.ACCESS_FLAGS | A.MIN_RNR_TIMER),
    },
    Transport.UC: {
        (S.RESET, S.INIT): Change(_PORT | A.ACCESS_FLAGS),
        (S.INIT, S.INIT): Change(A(0), _PORT | A.ACCESS_FLAGS),
        (S.INIT, S.RTR): Change(_PATH, A.ACCESS_FLAGS | A.PKEY_INDEX),
        (S.RTR, S.RTS): Change(A.SQ_PSN, _RIGHTS),
        (S.RTS, S.RTS): Change(A(0), _RIGHTS),
        (S.RTS, S.SQD): Change(A(0), A.EN_SQD_ASYNC_NOTIFY),
        (S.SQD, S.RTS): Change(A(0), _RIGHTS),
        (S.SQD, S.SQD): Change(A(0), A.AV | A.ACCESS_FLAGS | A.PKEY_INDEX),
        (S.SQE, S.RTS): Change(A(0), _RIGHTS),
    },
    Transport.UD: {
        (S.RESET, S.INIT): Change(_PORT | A.QKEY),
        (S.INIT, S.INIT): Change(A(0), _PORT | A.QKEY),
        (S.INIT, S.RTR): Change(A(0), A.PKEY_INDEX | A.QKEY),
        (S.RTR, S.RTS): Change(A.SQ_PSN, A.CUR_STATE | A.QKEY),
        (S.RTS, S.RTS): Change(A(0), A.CUR_STATE | A.QKEY),
        (S.RTS, S.SQD): Change(A(0), A.EN_SQD_ASYNC_NOTIFY),
        (S.SQD, S.RTS): Change(A(0), A.CUR_STATE | A.QKEY),
        (S.SQD, S.SQD): Change(A(0), A.PKEY_INDEX | A.QKEY),
        (S.SQE, S.RTS): Change(A(0), A.CUR_STATE | A.QKEY),
    },
}
# Attribute: (member of QUEUE_PAIR, or "" if it is checked and not kept; its allowed values)
VALUES: dict[A, tuple[str, range | tuple[int, ...]]] = {
    A.PKEY_INDEX: ("", range(1)),
    A.PORT: ("", range(1, 2)),
    A.QKEY: ("qkey", range(1 << 32)),
    A.ACCESS_FLAGS: ("access", range(16)),
    A.AV: ("destination", range(1 << 32)),
    A.PATH_MTU: ("mtu", PATH_MTUS),
    A.DEST_QPN: ("remote_qpn", range(1 << QPN_BITS)),
    A.RQ_PSN: ("expected", range(1 << PSN_BITS)),
    A.SQ_PSN: ("next_psn", range(1 << PSN_BITS)),
    A.MAX_DEST_RD_ATOMIC: ("most_responses", range(MAX_RD_ATOMIC + 1)),
    A.MAX_QP_RD_ATOMIC: ("most_reads", range(MAX_RD_ATOMIC + 1)),
    A.MIN_RNR_TIMER: ("rnr_timer", range(len(RNR_TIMES_NS))),
    A.TIMEOUT: ("timeout", range(MAX_TIMEOUT + 1)),
    A.RETRY_CNT: ("retry_count", range(MAX_RETRIES + 1)),
    A.RNR_RETRY: ("rnr_retry", range(MAX_RETRIES + 1)),
    A.CUR_STATE: ("", range(len(S))),
    A.EN_SQD_ASYNC_NOTIFY: ("", range(2)),
}


def check_change(kind: Transport, state: S, target: S, values: dict[A, int]) -> None:
    """Check a modification of a queue pair of service `kind` from `state` to `target`; `values`: the other attributes.

    Raises AttributesInvalid: no such change, or an attribute is missing, not allowed, or has a bad value.
    """
    change = Change() if target in ALWAYS else CHANGES[kind].get((state, target))
    if change is None:
        raise AttributesInvalid(f"{kind.name}: {state.name} can not change to {target.name}")
    given = A(0)
    for attribute in values:
        given |= attribute
    if lacking := change.required & ~given:
        raise AttributesInvalid(f"{state.name} to {target.name} lacks {names(lacking)}")
    if excess := given & ~(change.required | change.optional):
        raise AttributesInvalid(f"{state.name} to {target.name} does not take {names(excess)}")
    for attribute, value in values.items():
        if value not in VALUES[attribute][1]:
            raise AttributesInvalid(f"{attribute.name} can not be {value}")


def names(attributes: A) -> str:
    return ", ".join(str(attribute.name) for attribute in attributes)


# Receive requests


@internal
def has_receive(t, q):
    if q.receive_head != q.receive_tail:
        return True
    return q.shared_queue != 0 and waiting_requests(shared_queue_of(t, q)) > 0


@internal
def oldest_receive(t, q):
    """The oldest receive request, after `has_receive`."""
    if q.receive_head != q.receive_tail or not q.shared_queue:
        return receive_row(t, receive_index(t, q, q.receive_head))
    shared = shared_queue_of(t, q)
    return shared_row(t, shared_index(t, shared, shared.head))


@internal
def keep_receive(t, q):
    """The message goes on: its request now belongs to this queue pair."""
    if q.receive_head != q.receive_tail or not q.shared_queue:
        return
    shared = shared_queue_of(t, q)
    place = address_of(receive_row(t, receive_index(t, q, q.receive_tail)))
    copy(place, address_of(oldest_receive(t, q)), REQUEST_SIZE)
    q.receive_tail += 1
    shared.head += 1
    shared.taken += 1


@internal
def drop_receive(t, q):
    """The oldest receive request is complete."""
    if q.receive_head == q.receive_tail:
        shared_queue_of(t, q).head += 1
        return
    q.receive_head += 1
    if q.shared_queue:
        shared_queue_of(t, q).taken -= 1


@internal
def give_back(t, q):
    """The request that a message took of a shared queue, if any, is the oldest there again."""
    if not q.shared_queue or q.receive_head == q.receive_tail:
        return
    shared = shared_queue_of(t, q)
    shared.head -= 1
    shared.taken -= 1
    place = address_of(shared_row(t, shared_index(t, shared, shared.head)))
    copy(place, address_of(oldest_receive(t, q)), REQUEST_SIZE)
    q.receive_head += 1


@internal
def can_post_shared(shared):
    return waiting_requests(shared) + int64(shared.taken) < int64(shared.room)


@internal
def waiting_requests(shared):
    """Requests of a shared queue that no queue pair has taken."""
    return (int64(shared.tail) - int64(shared.head)) & 0xFFFFFFFF


@internal
def shared_queue_of(t, q):
    return shared_queue_at(t, U64(q.shared_queue - 1))


# The end in error


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

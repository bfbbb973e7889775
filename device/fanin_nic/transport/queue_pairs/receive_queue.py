"""The receive requests of a queue pair: those of its own queue, or of a shared receive queue.

A message of one packet ends the oldest request of the shared queue. A longer one takes it: it becomes the only request
of the queue pair's own queue, and is completed or flushed as usual. If the message stays incomplete and ends no request
(UC, or a reset), the request goes back to its old place, for which room is kept.
"""

from numba import int64

from fanin_nic.native.compiled import internal
from fanin_nic.native.memory import address_of, copy
from fanin_nic.transport.records.accessors import (
    U64,
    receive_index,
    receive_row,
    shared_index,
    shared_queue_at,
    shared_row,
)
from fanin_nic.transport.records.tables import RECEIVE_REQUEST

REQUEST_SIZE = U64(RECEIVE_REQUEST.itemsize)


@internal
def has_receive(t, q):
    if q.receive_head != q.receive_tail:
        return True
    return q.shared_queue != 0 and waiting(shared_queue_of(t, q)) > 0


@internal
def waiting(shared):
    """Requests of a shared queue that no queue pair has taken."""
    return (int64(shared.tail) - int64(shared.head)) & 0xFFFFFFFF


@internal
def can_post_shared(shared):
    return waiting(shared) + int64(shared.taken) < int64(shared.room)


@internal
def shared_queue_of(t, q):
    return shared_queue_at(t, U64(q.shared_queue - 1))


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

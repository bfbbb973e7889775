"""Work requests enter their queues."""

from numba import int64

from fanin_nic.native.compiled import internal
from fanin_nic.native.memory import address_of, copy
from fanin_nic.transport.memory.pieces import length_of
from fanin_nic.transport.records.accessors import (
    U64,
    make_ready,
    receive_index,
    receive_row,
    send_index,
    send_row,
    sges_of_receive,
    shared_index,
    shared_row,
)
from fanin_nic.transport.records.tables import RequestState
from fanin_wire.abi import MAX_SGE, RECEIVE_WQE, SEND_WQE
from fanin_wire.verbs import QueuePairState

SEND_WQE_SIZE, RECEIVE_WQE_SIZE = U64(SEND_WQE.itemsize), U64(RECEIVE_WQE.itemsize)


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

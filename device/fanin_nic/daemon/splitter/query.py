"""A query (step S6): all lanes are asked, and their merged answers are given at once, ahead of requests.

A queue has one query at a time. The lanes do not know parts of a message that they have completed, so these are counted
here, once, also if they complete during the query.
"""

from numba import uint64

from fanin_nic.daemon.splitter.host_rings import submit
from fanin_nic.daemon.splitter.tables import (
    enter,
    lanes_below,
    query_address,
    request_address,
    request_at,
    split_queue_at,
    under_way,
    wqe_address,
    wqe_at,
)
from fanin_nic.native.compiled import compiled
from fanin_wire.abi import Status


@compiled
def is_asked(place):
    """Whether the queue at `place` has a query that lanes have yet to answer."""
    return request_at(query_address(place)).opcode != 0


@compiled
def ask(splitter, place):
    """Give the next request of the client, a query, to all lanes. Complete parts count from the start."""
    queue = split_queue_at(place)
    wqe = wqe_address(place, queue.tail)
    enter(query_address(place), wqe_at(wqe))
    query = request_at(query_address(place))
    query.parts = lanes_below(splitter.lanes)
    for number in range(under_way(queue)):
        request = request_at(request_address(place, queue.head + number))
        if request.mid == query.mid:
            query.positions += request.positions
            query.byte_length += request.byte_length
    for lane in range(splitter.lanes):
        submit(queue.lane_send_ring[lane], wqe)
    splitter.reach = splitter.lanes


@compiled
def add_part(place, lane, mid, cqe):
    """A lane has completed a part of message `mid`: count it if its answer, which will lack it, is still to come."""
    query = request_at(query_address(place))
    if query.opcode and query.mid == mid and query.parts >> uint64(lane) & uint64(1):
        query.positions += cqe.positions
        query.byte_length += cqe.byte_length


@compiled
def add_answer(place, lane, cqe):
    """Enter the answer of a lane. The first one that names missing members counts."""
    query = request_at(query_address(place))
    query.parts &= ~(uint64(1) << uint64(lane))
    query.positions += cqe.positions
    query.byte_length += cqe.byte_length
    query.status = max(query.status, cqe.status)  # errors are more than PENDING, PENDING more than SUCCESS
    if cqe.missing and not query.missing:
        query.missing = cqe.missing
        query.missing_kind = cqe.missing_kind


@compiled
def set_status(place):
    """Set the status of a query that all lanes have answered, after the completion of complete requests."""
    queue, query = split_queue_at(place), request_at(query_address(place))
    if query.status > Status.PENDING:
        return
    for number in range(under_way(queue)):
        if request_at(request_address(place, queue.head + number)).mid == query.mid:
            query.status = Status.PENDING
            return
    query.status = Status.SUCCESS
    query.missing = 0

"""A query (step S6): all lanes are asked, and their answers put together at once, out of order with the requests.

One query of a queue is asked at a time. A part of a message that has come back is not known to its lane any more: it
is counted here, once, also if it comes back while the query is asked.
"""

from __future__ import annotations

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

SUCCESS, PENDING = int(Status.SUCCESS), int(Status.PENDING)


@compiled
def is_asked(place):
    """Whether the queue at `place` has asked something that its lanes have not all answered."""
    return request_at(query_address(place)).opcode != 0


@compiled
def ask(splitter, place):
    """Ask all lanes what the client's next request, a query, asks; parts that are back count from the start."""
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
    """A part of message `mid` has come back from a lane: if that has not answered yet, its answer will not count it."""
    query = request_at(query_address(place))
    if query.opcode and query.mid == mid and query.parts >> uint64(lane) & uint64(1):
        query.positions += cqe.positions
        query.byte_length += cqe.byte_length


@compiled
def add_answer(place, lane, cqe):
    """A lane has answered. The first that names somebody is believed."""
    query = request_at(query_address(place))
    query.parts &= ~(uint64(1) << uint64(lane))
    query.positions += cqe.positions
    query.byte_length += cqe.byte_length
    query.status = max(query.status, cqe.status)  # what went wrong is more than PENDING, that more than SUCCESS
    if cqe.missing and not query.missing:
        query.missing = cqe.missing
        query.missing_kind = cqe.missing_kind


@compiled
def set_status(place):
    """The status of a query that all lanes have answered, once all requests that can be are complete."""
    queue, query = split_queue_at(place), request_at(query_address(place))
    if query.status > PENDING:
        return
    for number in range(under_way(queue)):
        if request_at(request_address(place, queue.head + number)).mid == query.mid:
            query.status = PENDING
            return
    query.status = SUCCESS
    query.missing = 0

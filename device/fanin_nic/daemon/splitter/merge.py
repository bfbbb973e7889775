"""Merging: one completion for each request of a client, in order, from the completions of the lanes.

A queue has one query at a time. The lanes do not know parts of a message that they have completed, so these are counted
here, once, also if they complete during the query.
"""

from numba import uint32, uint64

from fanin_nic.daemon.splitter.tables import (
    CQE_SCRATCH,
    cqe_at,
    enter,
    is_empty,
    lanes_below,
    query_address,
    queue_address,
    request_address,
    request_at,
    split_queue_at,
    splitter_at,
    submit,
    take,
    under_way,
    wqe_address,
    wqe_at,
)
from fanin_nic.hostif.rings import CQE_BYTES, SQ_DEPTH, fetch, store, wake
from fanin_nic.native.compiled import compiled
from fanin_nic.native.memory import fill_zero, full_fence
from fanin_wire.abi import Status, WqeOpcode

# Requests


@compiled
def merge(address):
    """Take the completions of the lanes, and complete the requests that all lanes have completed; returns the number of
    completions taken. address: of the SPLITTER."""
    splitter = splitter_at(uint64(address))
    scratch = uint64(address) + CQE_SCRATCH
    taken = 0
    for index in range(splitter.queues):
        place = queue_address(splitter, index)
        if split_queue_at(place).send_ring:
            taken += merge_queue(splitter, place, scratch)
    if taken:
        wake_clients(splitter)
    return taken


@compiled
def merge_queue(splitter, place, scratch):
    """`merge` for the queue at `place`, without waking its client. scratch: memory for a CQE."""
    parts = collect(splitter, place, scratch)
    if parts:
        retire(splitter, place, scratch)
        answer_query(splitter, place, scratch)
    return parts


@compiled
def collect(splitter, place, scratch):
    """Enter the completions of the lanes for one queue into its requests; returns how many."""
    queue = split_queue_at(place)
    taken = 0
    for lane in range(splitter.lanes):
        while take(queue.lane_completion_ring[lane], scratch):
            taken += 1
            cqe = cqe_at(scratch)
            if cqe.opcode == WqeOpcode.QUERY:
                add_answer(place, lane, cqe)
            elif uint32(cqe.wr_id - queue.head) < uint32(queue.given - queue.head):
                request = request_at(request_address(place, cqe.wr_id))
                add(request, lane, cqe)
                add_to_query(place, lane, request.mid, cqe)
    return taken


@compiled
def add(request, lane, cqe):
    """Enter the end of a part of a request. The first failure counts; others follow from it."""
    request.parts &= ~(uint64(1) << uint64(lane))
    request.byte_length += cqe.byte_length
    request.positions += cqe.positions
    if cqe.status and not request.status:
        request.status = cqe.status
        request.missing = cqe.missing
        request.missing_kind = cqe.missing_kind
        request.lost_device = cqe.lost_device


@compiled
def retire(splitter, place, scratch):
    """Complete the oldest requests of a queue without missing parts."""
    queue = split_queue_at(place)
    while queue.head != queue.given:
        request = request_at(request_address(place, queue.head))
        if request.parts:
            return
        if request.status or request.signaled:
            report(splitter, queue, request, scratch)
        queue.head += 1


@compiled
def report(splitter, queue, request, scratch):
    """Store one completion for the client (step S6). Without room in its ring the queue's job has to end."""
    fill(scratch, queue, request)
    queue.stored = 1
    if not store(queue.completion_ring, scratch):
        splitter.cq_overflows += uint64(1)
        if not queue.overrun:
            queue.overrun = 1
            splitter.overruns += 1


@compiled
def fill(scratch, queue, request):
    """The completion of a request for its client."""
    fill_zero(scratch, CQE_BYTES)
    cqe = cqe_at(scratch)
    cqe.wr_id = request.wr_id
    cqe.byte_length = request.byte_length if request.status <= Status.PENDING else uint64(0)
    cqe.missing = request.missing
    cqe.missing_kind = request.missing_kind
    cqe.lost_device = request.lost_device
    cqe.jid = request.jid
    cqe.mid = request.mid
    cqe.status = request.status
    cqe.opcode = request.opcode
    cqe.positions = request.positions
    cqe.qp = queue.qp


@compiled
def wake_clients(splitter):
    """Wake the clients whose completions were stored."""
    full_fence()
    for index in range(splitter.queues):
        queue = split_queue_at(queue_address(splitter, index))
        if queue.stored:
            queue.stored = 0
            wake(queue.completion_ring)


@compiled
def completions_wait(address):
    """Whether a lane has unmerged completions. address: of the SPLITTER."""
    splitter = splitter_at(uint64(address))
    for index in range(splitter.queues):
        queue = split_queue_at(queue_address(splitter, index))
        if not queue.send_ring:
            continue
        for lane in range(splitter.lanes):
            if not is_empty(queue.lane_completion_ring[lane]):
                return True
    return False


@compiled
def has_overruns(address):
    """Whether a completion ring has overrun since Python last looked. address: of the SPLITTER."""
    return splitter_at(uint64(address)).overruns != 0


# A query (step S6): all lanes are asked, and their merged answers are given at once, ahead of requests


@compiled
def query_is_open(place):
    """Whether the queue at `place` has a query that lanes have yet to answer."""
    return request_at(query_address(place)).opcode != 0


@compiled
def ask_lanes(splitter, place):
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
def add_to_query(place, lane, mid, cqe):
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
def answer_query(splitter, place, scratch):
    """Complete the query of a queue, out of order, if all lanes have answered it."""
    query = request_at(query_address(place))
    if query_is_open(place) and query.parts == 0:
        set_query_status(place)
        report(splitter, split_queue_at(place), query, scratch)
        query.opcode = 0


@compiled
def set_query_status(place):
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


# Flushing


@compiled
def flush_queue(address, index):
    """Complete all unfinished requests of queue `index` as FLUSHED, in order. The lanes have flushed their parts, also
    of a query; left are requests held by a fence, and those in the client's send ring. address: of the SPLITTER."""
    splitter, scratch = splitter_at(uint64(address)), uint64(address) + CQE_SCRATCH
    place = queue_address(splitter, index)
    queue = split_queue_at(place)
    merge_queue(splitter, place, scratch)
    while queue.given != queue.tail:
        give_back(queue, place)
    for _ in range(SQ_DEPTH):  # a client that goes on posting must not delay others
        if not fetch(queue.send_ring, wqe_address(place, queue.tail)):
            break
        enter(request_address(place, queue.tail), wqe_at(wqe_address(place, queue.tail)))
        queue.tail += 1
        give_back(queue, place)
        retire(splitter, place, scratch)
    retire(splitter, place, scratch)
    wake_clients(splitter)


@compiled
def give_back(queue, place):
    """Complete the oldest request that no lane has as FLUSHED."""
    request_at(request_address(place, queue.given)).status = Status.FLUSHED
    queue.given += 1

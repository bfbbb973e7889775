"""Merging: one completion for each request of a client, in order, from the completions of the lanes."""

from numba import uint32, uint64

from fanin_nic.daemon.splitter.host_rings import is_empty, take
from fanin_nic.daemon.splitter.query import add_answer, add_part, is_asked, set_status
from fanin_nic.daemon.splitter.tables import (
    CQE_SCRATCH,
    cqe_at,
    query_address,
    queue_address,
    request_address,
    request_at,
    split_queue_at,
    splitter_at,
)
from fanin_nic.hostif.rings import CQE_BYTES, store, wake
from fanin_nic.native.compiled import compiled
from fanin_nic.native.memory import fill_zero, full_fence
from fanin_wire.abi import Status, WqeOpcode


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
def wake_clients(splitter):
    """Those that sleep until completions come which were stored."""
    full_fence()
    for index in range(splitter.queues):
        queue = split_queue_at(queue_address(splitter, index))
        if queue.stored:
            queue.stored = 0
            wake(queue.completion_ring)


@compiled
def merge_queue(splitter, place, scratch):
    """`merge` for the queue at `place`, without waking its client. scratch: memory for a CQE."""
    parts = collect(splitter, place, scratch)
    if parts:
        retire(splitter, place, scratch)
        answer(splitter, place, scratch)
    return parts


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
                add_part(place, lane, request.mid, cqe)
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
def answer(splitter, place, scratch):
    """Complete the query of a queue, out of order, if all lanes have answered it."""
    query = request_at(query_address(place))
    if is_asked(place) and query.parts == 0:
        set_status(place)
        report(splitter, split_queue_at(place), query, scratch)
        query.opcode = 0


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

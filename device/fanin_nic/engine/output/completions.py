"""Completions and notices: each signalled request gets exactly one completion, in order within a queue."""

from numba import int64, uint64

from fanin_nic.engine.output.action_table import append
from fanin_nic.engine.records.accessors import (
    REQUEST_SCALARS,
    U32,
    U64,
    action_at,
    count,
    job_at,
    queue_at,
    request_at,
    request_index,
)
from fanin_nic.engine.records.actions import ActionKind
from fanin_nic.engine.records.geometry import bytes_of
from fanin_nic.engine.records.tables import ENGINE, Counter
from fanin_nic.native.compiled import internal, internal_for
from fanin_wire.abi import Status
from fanin_wire.status import NAMING_A_DEVICE

MAX_RETIRED = 16


@internal_for(ENGINE, int64, REQUEST_SCALARS, int64, int64, uint64)
def complete_request(e, queue_index, request, status, missing_kind, missing):
    """A request that is not signalled has a completion only if it failed."""
    if status == 0 and not request.signaled:
        return
    queue = queue_at(e, queue_index)
    action = action_at(e, append(e, ActionKind.COMPLETE))
    action.queue = queue_index
    action.count = queue.qp
    action.status = status
    action.opcode = request.opcode
    action.wr_id = request.wr_id
    action.mid = request.mid
    action.missing_kind = missing_kind
    action.missing = missing
    action.position = request.done
    action.byte_length = bytes_of(request, request.count) if status == 0 else U64(0)
    if queue.job:
        action.jid = job_at(e, queue.job - 1).jid
    if queue.job and status in NAMING_A_DEVICE:
        action.lost_device = job_at(e, queue.job - 1).lost_device
    count(e, Counter.COMPLETIONS)


@internal
def retire(e, queue_index):
    """Complete the oldest requests of a queue that are done, a few in one call; returns how many. `serve` goes on."""
    queue = queue_at(e, queue_index)
    for retired in range(MAX_RETIRED):
        if queue.head == queue.tail:
            return retired
        request = request_at(e, request_index(e, queue_index, queue.head))
        if request.done != request.count:
            return retired
        if queue.head == queue.read:  # a request without positions is never read
            queue.read += 1
        complete_request(e, queue_index, request, request.status, 0, U64(0))
        queue.head += 1
    return MAX_RETIRED


@internal
def flush(e, queue_index, status, missing_kind, missing, budget):
    """Complete up to `budget` requests of a queue with a status; returns whether none is left."""
    queue = queue_at(e, queue_index)
    for _ in range(budget):
        if queue.head == queue.tail:
            break
        request = request_at(e, request_index(e, queue_index, queue.head))
        complete_request(e, queue_index, request, status, missing_kind, missing)
        queue.head += 1
    if queue.head == queue.tail:
        queue.read = queue.tail
        queue.read_segments = 0
        return True
    return False


@internal
def notice_slots(job, status):
    """`byte_length` of a notice: the leased slots, those that would fit, a peer's version, or the lost device."""
    if status == 0:
        return job.slots
    if status in NAMING_A_DEVICE:
        return job.lost_device
    return U32(job.peer_version) if status == Status.VERSION_MISMATCH else job.offered_slots


@internal_for(ENGINE, int64, int64, int64, int64, uint64)
def notice(e, queue_index, message_type, status, missing_kind, missing):
    """Answer the JOIN or LEAVE that a queue waits for."""
    queue = queue_at(e, queue_index)
    action = action_at(e, append(e, ActionKind.NOTICE))
    action.queue = queue_index
    action.opcode = message_type
    action.status = status
    action.wr_id = queue.tag
    action.missing_kind = missing_kind
    action.missing = missing
    if queue.job:
        job = job_at(e, queue.job - 1)
        action.jid = job.jid
        action.byte_length = notice_slots(job, status)
        action.window = job.window
        action.length = job.chunk

"""Delivery: a result into the buffers of the ranks of this node that want it (step S404)."""

from __future__ import annotations

from fanin_nic.engine.output.action_table import append
from fanin_nic.engine.output.completions import retire
from fanin_nic.engine.records.accessors import (
    ONE,
    U64,
    action_at,
    distance,
    job_at,
    queue_at,
    request_at,
    request_index,
)
from fanin_nic.engine.records.actions import ActionKind
from fanin_nic.engine.records.function_table import abort
from fanin_nic.engine.records.geometry import destination_of, is_in_place, segment_at, segment_length, wants
from fanin_nic.engine.slots.contribution import HAS_DATA
from fanin_nic.native.compiled import internal
from fanin_nic.native.memory import lowest_bit
from fanin_wire.abi import Status, WqeOpcode

DMA_WRITE, COMPLETE = int(ActionKind.DMA_WRITE), int(ActionKind.COMPLETE)
COLLECTIVE = int(WqeOpcode.COLLECTIVE)
OP_MISMATCH, LOCAL_PROTECTION_ERROR = int(Status.OP_MISMATCH), int(Status.LOCAL_PROTECTION_ERROR)


@internal
def find_request(e, queue_index, position):
    """1 + counter of the outstanding request of a queue that holds a position; 0 if none does."""
    queue = queue_at(e, queue_index)
    for offset in range(U64(queue.tail - queue.head) & U64(0xFFFFFFFF)):
        counter = queue.head + offset
        request = request_at(e, request_index(e, queue_index, counter))
        ahead = distance(position, request.first)
        if 0 <= ahead < request.count:
            return U64(counter & 0xFFFFFFFF) + U64(1)
    return U64(0)


@internal
def bypasses_caches(request, entry, segment):
    """Whether the result of a segment is stored past the caches: if the message is long and the result is not in place.

    The data of an in-place segment have just been read. An ordinary store finds their lines in the cache, and a
    non-temporal store would first have to evict them.
    """
    return request.is_long and not is_in_place(request, entry, segment)


@internal
def write_result(e, queue_index, request, slot, payload):
    """One DMA write for each rank of the request that wants the segment. False: it expects another length."""
    segment = segment_at(request, slot.position)
    for entry in range(request.addresses):
        if not wants(request, entry, segment):
            continue
        if U64(slot.length) != segment_length(request, segment):
            return False
        action = action_at(e, append(e, DMA_WRITE))
        action.queue = queue_index
        action.payload = payload
        action.length = slot.length
        action.remote = destination_of(request, entry, segment)
        action.process = request.destination_process
        action.position = slot.position
        action.mid = request.mid
        action.wr_id = request.wr_id
        action.is_long = bypasses_caches(request, entry, segment)
    return True


@internal
def fail_write(e, index, end):
    """The DMA_WRITE `index` of the table of `end` actions could not be carried out: its request fails.

    If the request is complete already, its completion stands later in the table, unless the request is not signalled.
    """
    write = action_at(e, index)
    counter = find_request(e, write.queue, write.position)
    if counter:
        request = request_at(e, request_index(e, write.queue, counter - U64(1)))
        request.status = max(request.status, LOCAL_PROTECTION_ERROR)
        return
    for other in range(U64(index) + U64(1), U64(end)):
        action = action_at(e, other)
        if action.kind == COMPLETE and action.queue == write.queue and is_completion_of(action, write):
            action.status = max(action.status, LOCAL_PROTECTION_ERROR)
            action.byte_length = U64(0)
            return
    complete_silent(e, write)


@internal
def is_completion_of(action, write):
    """Whether a COMPLETE belongs to the request of a DMA_WRITE."""
    return action.mid == write.mid and action.wr_id == write.wr_id


@internal
def complete_silent(e, write):
    """Append the completion of a request that is not signalled and has failed."""
    action = action_at(e, append(e, COMPLETE))
    queue = queue_at(e, write.queue)
    action.queue = write.queue
    action.count = queue.qp
    action.status = LOCAL_PROTECTION_ERROR
    action.opcode = COLLECTIVE
    action.wr_id = write.wr_id
    action.mid = write.mid
    if queue.job:
        action.jid = job_at(e, queue.job - 1).jid


@internal
def deliver(e, job, slot, payload, flags):
    """Write the result of a slot to every local rank that wants it, and complete the requests that it finishes."""
    ranks = U64(job.rank_mask)
    while ranks:
        rank = lowest_bit(ranks)
        ranks &= ranks - ONE
        if not job.queue[rank]:
            continue
        queue_index = job.queue[rank] - 1
        if not is_lowest_rank(e, queue_index, rank):
            continue
        counter = find_request(e, queue_index, slot.position)
        if not counter:
            continue
        request = request_at(e, request_index(e, queue_index, counter - U64(1)))
        readable = flags & HAS_DATA and slot.status == 0 and not request.poison
        if readable and not write_result(e, queue_index, request, slot, payload):
            abort(e, job, OP_MISMATCH, 0, U64(queue_at(e, queue_index).rank_bitmap))
            return
        request.status = max(request.status, max(slot.status, request.poison))
        request.done += 1
        retire(e, queue_index)


@internal
def is_lowest_rank(e, queue_index, rank):
    """Whether `rank` is the lowest rank that a queue posts for, so that each queue is served once."""
    bitmap = queue_at(e, queue_index).rank_bitmap
    return (bitmap & ((U64(1) << U64(rank)) - U64(1))) == U64(0)

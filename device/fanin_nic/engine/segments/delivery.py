"""Delivery: a result into the buffers of the ranks of this node that want it (step S404).

The data of a ONE position are its result as soon as they are here. A rank of this node that has posted its request gets
them at once, whoever is missing; one that has not gets a short message in its arrival ring.
"""

from fanin_nic.engine.output.action_table import append
from fanin_nic.engine.output.completions import retire
from fanin_nic.engine.records.accessors import (
    ONE,
    U64,
    action_at,
    bit_of,
    distance,
    job_at,
    queue_at,
    request_at,
    request_index,
)
from fanin_nic.engine.records.actions import ActionKind
from fanin_nic.engine.records.function_table import abort
from fanin_nic.engine.records.geometry import destination_of, is_in_place, segment_at, segment_length, wants
from fanin_nic.engine.records.trace import WRITTEN, trace
from fanin_nic.engine.slots.zero_copy import data_address
from fanin_nic.native.compiled import internal
from fanin_nic.native.memory import lowest_bit
from fanin_wire import abi
from fanin_wire.abi import Route, Status, WqeOpcode
from fanin_wire.fields import Flag
from fanin_wire.limits import MAX_AHEAD

MAX_ARRIVAL, MAX_ARRIVAL_OVER_NETWORK = U64(abi.MAX_ARRIVAL), U64(MAX_AHEAD)


@internal
def find_request(e, queue_index, position):
    """1 + counter of the outstanding request of a queue that holds a position; 0 if none."""
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
    """Whether a segment's result is stored past the caches: the message is long, the result not in place. (The data of
    an in-place segment have just been read: an ordinary store finds their lines in the cache, a non-temporal one would
    first have to evict them.)"""
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
        action = action_at(e, append(e, ActionKind.DMA_WRITE))
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
    """The DMA_WRITE `index` of the table of `end` actions failed, and so does its request. If the request is complete
    already, its completion is later in the table, unless it is not signalled."""
    write = action_at(e, index)
    counter = find_request(e, write.queue, write.position)
    if counter:
        request = request_at(e, request_index(e, write.queue, counter - U64(1)))
        request.status = max(request.status, Status.LOCAL_PROTECTION_ERROR)
        return
    for other in range(U64(index) + U64(1), U64(end)):
        action = action_at(e, other)
        if action.kind == ActionKind.COMPLETE and action.queue == write.queue and is_completion_of(action, write):
            action.status = max(action.status, Status.LOCAL_PROTECTION_ERROR)
            action.byte_length = U64(0)
            return
    complete_unsignaled(e, write)


@internal
def is_completion_of(action, write):
    """Whether a COMPLETE belongs to the request of a DMA_WRITE."""
    return action.mid == write.mid and action.wr_id == write.wr_id


@internal
def complete_unsignaled(e, write):
    """The completion of a request that is not signalled and has failed."""
    action = action_at(e, append(e, ActionKind.COMPLETE))
    queue = queue_at(e, write.queue)
    action.queue = write.queue
    action.count = queue.qp
    action.status = Status.LOCAL_PROTECTION_ERROR
    action.opcode = WqeOpcode.COLLECTIVE
    action.wr_id = write.wr_id
    action.mid = write.mid
    if queue.job:
        action.jid = job_at(e, queue.job - 1).jid


@internal
def deliver(e, job, slot, payload, flags):
    """Write the result of a slot to every local rank that wants it, and complete the requests that it finishes."""
    ranks = U64(job.rank_mask) & ~slot.delivered
    while ranks:
        rank = lowest_bit(ranks)
        ranks &= ranks - ONE
        if not job.queue[rank]:
            continue
        queue_index = job.queue[rank] - 1
        if is_lowest_rank(e, queue_index, rank) and not deliver_to_queue(e, job, slot, queue_index, payload, flags):
            return


@internal
def deliver_to_queue(e, job, slot, queue_index, payload, flags):
    """Write the result of a slot to the ranks of a queue that want it, if its request is posted. False: it expects
    another length, and the job has ended."""
    counter = find_request(e, queue_index, slot.position)
    if not counter:
        return True
    request = request_at(e, request_index(e, queue_index, counter - U64(1)))
    readable = flags & Flag.HAS_DATA and slot.status == 0 and not request.poison
    if readable and not write_result(e, queue_index, request, slot, payload):
        abort(e, job, Status.OP_MISMATCH, 0, U64(queue_at(e, queue_index).rank_bitmap))
        return False
    trace(e, job, slot, WRITTEN, lowest_bit(U64(queue_at(e, queue_index).rank_bitmap)))
    request.status = max(request.status, max(slot.status, request.poison))
    request.done += 1
    retire(e, queue_index)
    return True


@internal
def deliver_ahead(e, job, slot, source, is_whole):
    """The queue `source` has brought the data of a ONE position: ranks of other queues that have contributed get them,
    a message that `is_whole` arrives at those that have not posted. False: the job has ended.

    The request that brought them ends when all members have contributed, so that its program knows.
    """
    ranks = U64(job.rank_mask) & ~slot.delivered
    while ranks:
        rank = lowest_bit(ranks)
        ranks &= ranks - ONE
        if not job.queue[rank]:
            continue
        queue_index = job.queue[rank] - 1
        if queue_index == source:
            continue
        if is_whole and slot.rank_missing & bit_of(rank):
            append_arrival(e, job, slot, queue_index)
        elif not deliver_ahead_to(e, job, slot, queue_index):
            return False
    return True


@internal
def deliver_ahead_to(e, job, slot, queue_index):
    """Give the rank of a queue the data of a ONE position, once it has contributed. False: the job has ended.

    A request with a deadline waits for all members; so does one for several ranks, which may bring the data as well.
    """
    queue = queue_at(e, queue_index)
    ranks = U64(queue.rank_bitmap)
    if slot.status or queue.rank_count != 1 or ranks & (slot.rank_missing | slot.delivered):
        return True
    counter = find_request(e, queue_index, slot.position)
    if not counter or request_at(e, request_index(e, queue_index, counter - U64(1))).deadline:
        return True
    slot.delivered |= ranks
    return deliver_to_queue(e, job, slot, queue_index, data_address(e, job, slot), slot.flags)


@internal
def arrival_limit(job):
    """Bytes of the longest message that arrives before its rank asks. Over the network longer ones do not go ahead, so
    their senders need not wait for room in an arrival ring."""
    return MAX_ARRIVAL if job.route == Route.LOCAL else MAX_ARRIVAL_OVER_NETWORK


@internal
def append_arrival(e, job, slot, queue_index):
    """The message of a slot arrives at a rank that has not posted its request for it."""
    queue = queue_at(e, queue_index)
    if queue.rank_count != 1 or U64(slot.length) > arrival_limit(job) or distance(queue.position, slot.position) > 0:
        return
    action = action_at(e, append(e, ActionKind.ARRIVAL))
    action.queue = queue_index
    action.payload = data_address(e, job, slot)
    action.length = slot.length
    action.jid = job.jid
    action.mid = slot.mid
    action.opcode = slot.dtype


@internal
def is_lowest_rank(e, queue_index, rank):
    """Whether `rank` is the lowest of a queue, so that each queue is served once."""
    bitmap = queue_at(e, queue_index).rank_bitmap
    return (bitmap & ((U64(1) << U64(rank)) - U64(1))) == U64(0)

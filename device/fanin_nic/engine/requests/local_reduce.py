"""Local reduce: all ranks of a node at once, in a job without other nodes (steps S402 to S407 in one).

If all ranks have posted a segment, and their memory is mapped here, it needs no slot to wait in: a REDUCE computes from
the memory of the ranks straight into the memory of the ranks, as many segments at a time as the window allows. While a
rank has not posted, one segment waits in a slot, which shows the missing rank; the others wait in the ranks' memory.
Short messages always use slots: copying costs less than checking who else has posted, and the data of one rank reach
the others earlier.

A REDUCE goes block by block through the memory of one slot: a block of each rank is computed into it, then stored for
every rank that wants it. So memory reads and writes overlap, and intermediate values stay in the caches. Record 0023:
why, with figures.
"""

import enum

from numba import int64

from fanin_nic.engine.output import append, retire
from fanin_nic.engine.records.accessors import (
    ONE,
    U64,
    ZERO,
    action_at,
    add,
    brings,
    destination_of,
    distance,
    entry_of,
    job_at,
    payload_of,
    place_in_message,
    queue_at,
    request_at,
    request_index,
    segment_length,
    slot_at,
    slot_index,
    source_of,
    wants,
)
from fanin_nic.engine.records.actions import ACTION, ActionKind
from fanin_nic.engine.records.tables import Counter
from fanin_nic.engine.records.trace import trace_run
from fanin_nic.engine.segments.complete import arrival_limit, bypasses_caches, is_lowest_rank
from fanin_nic.engine.slots import (
    accumulate,
    contributor_class,
    describe,
    elements_of,
    finish_result,
    is_computed_wide,
    kernel_address,
)
from fanin_nic.native.compiled import internal
from fanin_nic.native.memory import address_of, call_kernel, copy, count_bits, lowest_bit
from fanin_nic.native.streaming import spread
from fanin_wire.abi import ContributorClass
from fanin_wire.fields import CLASS_SHIFT
from fanin_wire.tap import Step

# Bytes of a block. Large blocks need fewer calls; only small ones let reads from memory and writes overlap.
BLOCK, BLOCK_OF_MEMORY = U64(2048), U64(512)
REMOTE, ACTION_SIZE = U64(ACTION.fields["remote"][1]), U64(ACTION.itemsize)  # type: ignore[index]
SHORT_BYTES = U64(4096)  # added up in less time than checking who else has posted takes
MAX_BYTES = U64(2 << 20)  # of one REDUCE, as no other queue is served meanwhile


class ReduceMode(enum.IntEnum):
    """How the next segment of a queue is computed."""

    BUFFERED = 0  # through a slot
    WAIT = 1  # for other ranks, which are to post it or are behind
    DIRECT = 2


@internal
def next_request(e, queue_index):
    return request_index(e, queue_index, queue_at(e, queue_index).read)


@internal
def is_node_local(job):
    """Whether only ranks of this node take part in a job."""
    return not job.has_parent and job.node_mask == ZERO


@internal
def is_mapped(request):
    """Whether source and destination of a request are mapped here."""
    in_place = not request.source_process and not request.destination_process
    return in_place and request.length != ZERO and not request.poison and request.contributors != ContributorClass.NONE


@internal
def is_same_segment(one, one_read, other, other_read):
    """Whether two requests continue with the same segment of a message; one_read, other_read: segments read of each."""
    same = one.op == other.op and one.dtype == other.dtype and one.contributors == other.contributors
    same = same and one.mid == other.mid and one.sid + one_read == other.sid + other_read
    return same and one.length == other.length and one.block == other.block and one.segment == other.segment


@internal
def is_short(job, request):
    """Whether a message is one short segment, as all data ahead of the result must be."""
    most = arrival_limit(job) if request.contributors == ContributorClass.ONE else SHORT_BYTES
    return request.count == 1 and request.length <= most


@internal
def reduce_mode(e, job, request, read):
    """How the next segment of a request, of which `read` segments are read, is computed (ReduceMode).

    A rank that is behind comes later; one that is ahead has contributed the segment already. While ranks have not
    posted the segment, one open position is enough to show the missing ones.
    """
    if not is_node_local(job) or is_short(job, request) or not is_mapped(request):
        return ReduceMode.BUFFERED
    position = U64(request.first + read) & U64(0xFFFFFFFF)
    mode, sources, ranks = ReduceMode.DIRECT, 0, U64(job.rank_mask)
    while ranks:
        rank = lowest_bit(ranks)
        ranks &= ranks - ONE
        if not job.queue[rank]:
            return ReduceMode.BUFFERED
        index = job.queue[rank] - 1
        queue = queue_at(e, index)
        if distance(queue.position, position) <= 0:
            if not job.in_flight:
                return ReduceMode.BUFFERED
            mode = ReduceMode.WAIT
            continue
        if queue.read == queue.tail:
            return ReduceMode.BUFFERED
        other = request_at(e, next_request(e, index))
        ahead = distance(other.first + queue.read_segments, position)
        if ahead > 0 or not is_mapped(other):
            return ReduceMode.BUFFERED
        if ahead < 0:
            mode = ReduceMode.WAIT
        elif not is_same_segment(request, read, other, queue.read_segments):
            return ReduceMode.BUFFERED
        else:
            sources += brings(other, entry_of(queue, rank), U64(request.sid + read))
    if mode == ReduceMode.DIRECT and request.contributors == ContributorClass.ONE and sources != 1:
        return ReduceMode.BUFFERED
    return mode


@internal
def batch_length(e, job, request, read):
    """Segments of one REDUCE: all have posted them, the same ranks bring and want, and the window has room."""
    first, position, ranks = U64(request.sid + read), request.first + read, U64(job.rank_mask)
    length = int(job.window) - distance(position, job.base)
    length = min(length, int64(max(ONE, MAX_BYTES // (U64(request.segment) * count_bits(ranks)))))
    while ranks:
        rank = lowest_bit(ranks)
        ranks &= ranks - ONE
        queue = queue_at(e, job.queue[rank] - 1)
        other = request_at(e, next_request(e, job.queue[rank] - 1))
        length = min(length, int64(other.count - queue.read_segments))
        if request.block < request.length:
            length = uniform_length(other, entry_of(queue, rank), first, length)
    return length


@internal
def uniform_length(request, entry, first, most):
    """How many of `most` segments from `first` on have, for one rank, the sources and destinations of the first."""
    brought, wanted = brings(request, entry, first), wants(request, entry, first)
    for length in range(1, most):
        segment = first + U64(length)
        if brings(request, entry, segment) != brought or wants(request, entry, segment) != wanted:
            return length
    return most


@internal
def append_reduce(e, job, request, read):
    """Append the REDUCE of the next segments of all ranks; returns the number of contributions."""
    first, position = U64(request.sid + read), U64(request.first + read) & U64(0xFFFFFFFF)
    segments = batch_length(e, job, request, read)
    last = first + U64(segments - 1)
    length = place_in_message(request, last) + segment_length(request, last) - place_in_message(request, first)
    mark_slots(e, job, request, first, position, segments)
    trace_run(e, job, Step.REDUCED, position, request.mid, segments, 0)
    action = action_at(e, append(e, ActionKind.REDUCE))
    action.queue = job.queue[lowest_bit(U64(job.rank_mask))] - 1
    action.payload = payload_of(e, job, position)
    action.position = position
    action.length = length
    append_sources(e, job, action, first)
    append_targets(e, job, action, first)
    complete_segments(e, job, segments)
    add(e, Counter.SEGMENTS, segments * int64(action.count))
    return segments * int64(action.count)


@internal
def mark_slots(e, job, request, first, position, segments):
    """Mark slots as used. The first one gets the control information; its memory takes the blocks."""
    for number in range(segments):
        slot = slot_at(e, slot_index(job, position + U64(number)))
        slot.position = position + U64(number)
    slot = slot_at(e, slot_index(job, position))
    describe(slot, request.op, request.dtype, request.contributors << CLASS_SHIFT, request.mid, first)
    slot.status = 0
    slot.contributions = count_bits(U64(job.rank_mask))


@internal
def append_sources(e, job, reduction, first):
    """A SOURCE for each rank that brings data, in the order of the ranks."""
    ranks = U64(job.rank_mask)
    while ranks:
        rank = lowest_bit(ranks)
        ranks &= ranks - ONE
        index = job.queue[rank] - 1
        request, entry = request_at(e, next_request(e, index)), entry_of(queue_at(e, index), rank)
        if brings(request, entry, first):
            action = action_at(e, append(e, ActionKind.SOURCE))
            action.queue = index
            action.length = reduction.length
            action.remote = source_of(request, entry, first)
            reduction.count += 1


@internal
def append_targets(e, job, reduction, first):
    """A TARGET for each rank that wants the result, past the caches for all if for one."""
    ranks = U64(job.rank_mask)
    while ranks:
        rank = lowest_bit(ranks)
        ranks &= ranks - ONE
        index = job.queue[rank] - 1
        request, entry = request_at(e, next_request(e, index)), entry_of(queue_at(e, index), rank)
        if wants(request, entry, first):
            action = action_at(e, append(e, ActionKind.TARGET))
            action.queue = index
            action.length = reduction.length
            action.remote = destination_of(request, entry, first)
            action.position = reduction.position
            action.mid = request.mid
            reduction.targets += 1
            reduction.is_long |= bypasses_caches(request, entry, first)


@internal
def complete_segments(e, job, segments):
    """Count the segments as read and done in every queue."""
    ranks = U64(job.rank_mask)
    while ranks:
        rank = lowest_bit(ranks)
        ranks &= ranks - ONE
        index = job.queue[rank] - 1
        if is_lowest_rank(e, index, rank):
            request = request_at(e, next_request(e, index))
            request.done += segments
            advance(queue_at(e, index), request, segments)
            retire(e, index)


@internal
def advance(queue, request, segments):
    """Count segments of the request being read as read."""
    queue.read_segments += segments
    if queue.read_segments == request.count:
        queue.read_segments = 0
        queue.read += 1


@internal
def reduce(e, index):
    """Perform the REDUCE `index` of the table of actions."""
    action = action_at(e, index)
    job = job_at(e, queue_at(e, action.queue).job - 1)
    slot = slot_at(e, slot_index(job, action.position))
    sources, done, elements = U64(index) + ONE, ZERO, ZERO
    places = address_of(action_at(e, sources + U64(action.count))) + REMOTE
    past_caches = action.is_long != 0
    block = min(BLOCK_OF_MEMORY if past_caches else BLOCK, U64(job.chunk))  # at most what a slot holds
    while done < U64(action.length):
        if done == ZERO or U64(action.length) - done < block:
            slot.length = min(block, U64(action.length) - done)
            elements = elements_of(e, slot)
        reduce_block(e, slot, U64(action.payload), sources, int(action.count), done, elements)
        spread(places, ACTION_SIZE, int(action.targets), done, U64(action.payload), U64(slot.length), past_caches)
        done += U64(slot.length)


@internal
def reduce_block(e, slot, target, sources, count, done, elements):
    """Compute the block behind the first `done` bytes, of `elements` elements, at address `target`."""
    copy(target, action_at(e, sources).remote + done, U64(slot.length))
    if contributor_class(slot.flags) != ContributorClass.ALL:  # one rank's data are the result
        return
    if is_computed_wide(e, slot.op, slot.dtype):
        for number in range(1, count):
            accumulate(e, slot, target, action_at(e, sources + U64(number)).remote + done, False)
    else:
        kernel = kernel_address(e, slot.op, slot.dtype)
        for number in range(1, count):
            call_kernel(kernel, target, action_at(e, sources + U64(number)).remote + done, elements)
    finish_result(e, slot, target, slot.contributions > ONE)

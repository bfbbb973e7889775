"""Reading the data of the ranks: the device serves the send queues in turn (steps S402 and S405).

Mapped memory is computed from in place. For process memory a DMA_READ asks for a run of segments; the event `dma_done`
brings it. A rank is read only as far as its job's window: position p when p - W is done. In a tree with loss at most
three quarters of the window are in flight, so that the stream goes on during repairs: otherwise a PROBE and its answer
would wait behind a window of data. In a reproducible job process memory is read in the order of the ranks, position by
position: a rank that is early waits.
"""

from fanin_nic.engine.output import append, retire
from fanin_nic.engine.records.accessors import (
    ONE,
    U64,
    ZERO,
    action_at,
    bit_of,
    brings,
    distance,
    job_at,
    place_in_message,
    proceed,
    queue_at,
    request_at,
    request_index,
    segment_length,
    slot_at,
    slot_index,
    source_of,
)
from fanin_nic.engine.records.actions import READ_BYTES, ActionKind
from fanin_nic.engine.records.tables import JobState, SlotState
from fanin_nic.engine.requests.local_reduce import ReduceMode, advance, append_reduce, reduce_mode
from fanin_nic.engine.segments.complete import arrival_limit
from fanin_nic.engine.segments.contribute import contribute_rank, open_slot
from fanin_nic.engine.segments.rto import is_lossy
from fanin_nic.engine.slots import REPRODUCIBLE
from fanin_nic.native.compiled import internal
from fanin_nic.native.memory import count_bits, lowest_bit
from fanin_wire import abi
from fanin_wire.abi import ContributorClass, Route

ARRIVAL_UNIT, ARRIVAL_UNITS = U64(abi.ARRIVAL_UNIT), U64(abi.ARRIVAL_UNITS)
ARRIVAL_HEAD = U64(abi.ARRIVAL.itemsize)


@internal
def has_work(e, queue_index):
    queue = queue_at(e, queue_index)
    if not queue.active or queue.reading or queue.read == queue.tail or not queue.job:
        return False
    job = job_at(e, queue.job - 1)
    if job.state != JobState.ACTIVE:
        return False
    request = request_at(e, request_index(e, queue_index, queue.read))
    if request.fence and not queue.read_segments and job.base != request.first:  # earlier results may not be in memory
        return False
    if request.count == 0:
        return True
    return in_window(e, job, request.first + queue.read_segments, 0) and not is_far_ahead(job, request)


@internal
def is_far_ahead(job, request):
    """Whether a short message of one rank is further ahead of the slowest rank than an arrival ring holds.

    If it did not fit there, it would cost its receiver a round trip. All positions between count as messages of this
    length, so behind a long message a short one waits too long. In a ring nothing goes ahead.
    """
    if job.route == Route.RING or request.contributors != ContributorClass.ONE:
        return False
    if request.count != 1 or request.length > arrival_limit(job):
        return False
    units = (ARRIVAL_HEAD + U64(request.length) + ARRIVAL_UNIT - U64(1)) // ARRIVAL_UNIT
    return U64(distance(request.first, job.base) + 2) * units > ARRIVAL_UNITS  # one may not fit at the end of the ring


@internal
def in_window(e, job, position, begun):
    """Whether a position may start after `begun` others have just started. In a ring, positions in flight may wait for
    this rank, so the whole window counts."""
    if distance(position, job.base) >= job.window:
        return False
    if job.route == Route.RING or job.in_flight + begun < max(1, job.window * 3 // 4) or not is_lossy(e, job):
        return True
    if distance(position, job.base) == 0:  # data that came ahead for later positions may be in flight
        return True
    slot = slot_at(e, slot_index(job, position))
    return distance(slot.position, position) == 0 and slot.state != SlotState.DONE  # another rank has started it


@internal
def serve(e, queue_index, budget):
    """Contribute up to `budget` segments of a queue, or of all queues of its job at once; returns how many."""
    served = 0
    while served < budget and e.action_count < e.actions // 2 and has_work(e, queue_index):
        queue = queue_at(e, queue_index)
        request = request_at(e, request_index(e, queue_index, queue.read))
        if request.count == 0:
            queue.read += 1
            retire(e, queue_index)
        elif request.source_process and not request.poison and brings_any(request, next_segment(queue, request)):
            if waits_for_turn(e, queue, request):
                break
            start_read(e, queue_index, request)
        else:
            job, segment = job_at(e, queue.job - 1), queue.read_segments
            how = reduce_mode(e, job, request, segment)
            if how == ReduceMode.WAIT:
                break
            if how == ReduceMode.DIRECT:
                served += append_reduce(e, job, request, segment)
                continue
            advance(queue, request, 1)
            contribute_all(e, queue_index, request, segment)
            served += 1
    return served


@internal
def waits_for_turn(e, queue, request):
    """Whether the next data of a queue wait for ranks before its own. The position is begun then, to show them."""
    job = job_at(e, queue.job - 1)
    if not has_ranks_before(job, queue, request) or is_its_turn(e, job, queue, request.first + queue.read_segments):
        return False
    proceed(e, job, open_slot(e, job, request, queue.read_segments))
    return True


@internal
def has_ranks_before(job, queue, request):
    """Whether ranks before those of a queue must have brought their data."""
    has_turns = job.flags & REPRODUCIBLE != 0 and request.contributors == ContributorClass.ALL
    return has_turns and ranks_before(job, queue) != ZERO


@internal
def ranks_before(job, queue):
    """Ranks of this node before the first of a queue."""
    return U64(job.rank_mask) & (bit_of(lowest_bit(U64(queue.rank_bitmap))) - ONE)


@internal
def is_its_turn(e, job, queue, position):
    """Whether all ranks before those of a queue have brought what they have for a position."""
    slot = slot_at(e, slot_index(job, position))
    if distance(slot.position, position) != 0 or slot.state != SlotState.OPEN:
        return False
    return slot.rank_missing & ranks_before(job, queue) == ZERO


@internal
def next_segment(queue, request):
    """Number of the message's segment that is read next."""
    return U64(request.sid) + U64(queue.read_segments)


@internal
def brings_any(request, segment):
    """Whether any rank of a request brings data for a segment."""
    count = 0
    for entry in range(request.addresses):
        count += brings(request, entry, segment)
    return count > 0


@internal
def contribute_all(e, queue_index, request, number):
    """Contribute one segment of every rank of a request: with mapped memory, without data, or poisoned."""
    job = job_at(e, queue_at(e, queue_index).job - 1)
    for entry in range(request.addresses):
        place = source_of(request, entry, U64(request.sid) + U64(number))
        contribute_rank(e, queue_index, request, number, entry, place)
        if job.state != JobState.ACTIVE:
            return


@internal
def read_limit(e, job):
    """Most segments of a DMA_READ, whose end can complete them all, with a write and a completion for each rank."""
    room = U64(e.actions) // U64(4) // (U64(2) * count_bits(job.rank_mask) + U64(1))
    return int(max(U64(1), min(U64(READ_BYTES) // U64(job.chunk), room)))


@internal
def run_length(e, job, queue, request, limit):
    """Segments of the next DMA_READ: up to the window, `limit`, and the first segment that other ranks bring."""
    first, position = next_segment(queue, request), request.first + queue.read_segments
    most = min(request.count - queue.read_segments, limit)
    length, in_turn = 1, has_ranks_before(job, queue, request)
    while length < most and in_window(e, job, U64(position) + U64(length), length):
        if in_turn and not is_its_turn(e, job, queue, position + length):
            break
        if not have_same_contributors(request, first, first + U64(length)):
            break
        length += 1
    return length


@internal
def have_same_contributors(request, one, other):
    differences = 0
    for entry in range(request.addresses):
        differences += brings(request, entry, one) != brings(request, entry, other)
    return differences == 0


@internal
def start_read(e, queue_index, request):
    """Append the DMA_READs of the next segments, one for each rank that brings them from process memory."""
    queue = queue_at(e, queue_index)
    job = job_at(e, queue.job - 1)
    segments = run_length(e, job, queue, request, read_limit(e, job))
    first = next_segment(queue, request)
    last = first + U64(segments - 1)
    end = place_in_message(request, last) + segment_length(request, last)
    for entry in range(request.addresses):
        if not brings(request, entry, first):
            continue
        action = action_at(e, append(e, ActionKind.DMA_READ))
        action.queue = queue_index
        action.remote = source_of(request, entry, first)
        action.process = request.source_process
        action.position = request.first + queue.read_segments
        action.count = segments
        action.length = end - place_in_message(request, first)
        action.address_index = entry
        queue.reading = 1
        queue.reads_open += 1
    for entry in range(request.addresses):
        if not brings(request, entry, first):
            contribute_run(e, queue_index, request, queue.read_segments, segments, entry, U64(0))


@internal
def contribute_run(e, queue_index, request, start, segments, entry, address):
    """Contribute a run of segments of one rank. Their data lie at `address` as in the message."""
    job = job_at(e, queue_at(e, queue_index).job - 1)
    origin = place_in_message(request, U64(request.sid) + U64(start))
    for k in range(segments):
        place = address + place_in_message(request, U64(request.sid) + U64(start + k)) - origin
        contribute_rank(e, queue_index, request, start + k, entry, place)
        if job.state != JobState.ACTIVE:
            return


@internal
def finish_read(e, queue_index, position, segments, entry, address, status):
    """Event `dma_done`: the data of a run of segments lie at `address`, or `status` says why they could not be read."""
    queue = queue_at(e, queue_index)
    if not queue.active or not queue.reading or not queue.job or queue.read == queue.tail:
        return
    job = job_at(e, queue.job - 1)
    request = request_at(e, request_index(e, queue_index, queue.read))
    if job.state != JobState.ACTIVE or position != U64(request.first + queue.read_segments) & U64(0xFFFFFFFF):
        return
    if status:
        request.poison = max(request.poison, status)
    start = queue.read_segments
    queue.reads_open -= 1
    if queue.reads_open == 0:
        queue.reading = 0
        advance(queue, request, segments)
    contribute_run(e, queue_index, request, start, segments, entry, address)

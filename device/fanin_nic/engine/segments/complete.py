"""A complete segment: it goes up, goes round the ring, or is the result and is delivered (steps S404, S406 and S407).

The data of a ONE position are its result as soon as they are here. A rank of this node that has posted its request gets
them at once, whoever is missing; one that has not gets a short message in its arrival ring. A short message of one rank
goes to the devices below at once as well (SPEC.md, 7.5). Record 0058: why only short messages, what it gains, and the
rules that keep it safe.
"""

from fanin_nic.engine import slots
from fanin_nic.engine.jobs.lease import all_nodes
from fanin_nic.engine.jobs.leave import abort_departed
from fanin_nic.engine.output import (
    append,
    copy_result,
    goes_to_group,
    retire,
    send_contribution,
    send_result,
    serves_by_group,
)
from fanin_nic.engine.records.accessors import (
    ONE,
    U64,
    ZERO,
    abort,
    action_at,
    bit_of,
    child_at,
    child_index,
    destination_of,
    distance,
    header_at,
    is_in_place,
    job_at,
    payload_of,
    queue_at,
    request_at,
    request_index,
    segment_at,
    segment_length,
    wants,
)
from fanin_nic.engine.records.actions import ActionKind
from fanin_nic.engine.records.tables import Ahead, Sent, SlotState, Upward
from fanin_nic.engine.records.trace import trace
from fanin_nic.engine.segments.rto import start_timer
from fanin_nic.engine.slots import (
    contributor_class,
    convert_partial,
    data_address,
    finish_result,
    fold_rest,
    is_one_with_data,
    waits_for_departed,
)
from fanin_nic.native.compiled import internal
from fanin_nic.native.memory import lowest_bit
from fanin_wire import abi
from fanin_wire.abi import ContributorClass, Route, Status, WqeOpcode
from fanin_wire.fields import Flag
from fanin_wire.limits import MAX_AHEAD
from fanin_wire.tap import Step

MAX_AHEAD_BYTES = U64(MAX_AHEAD)
MAX_ARRIVAL, MAX_ARRIVAL_OVER_NETWORK = U64(abi.MAX_ARRIVAL), U64(MAX_AHEAD)


@internal
def advance_segment(e, job, slot):
    """A bit of a slot was cleared: complete the slot if it was the last, abort if a missing member has left."""
    if waits_for_departed(job, slot):
        abort_departed(e, job, slot)
    elif slot.rank_missing == ZERO and slot.node_missing == ZERO:
        complete(e, job, slot)
    else:
        if is_one_with_data(slot) and job.has_parent and job.route != Route.RING and may_go_up(slot):
            send_up_ahead(e, job, slot)
        if goes_ahead_now(job, slot):
            send_ahead(e, job, slot)


@internal
def complete(e, job, slot):
    """Both completion bitmaps of a slot are empty."""
    trace(e, job, slot, Step.COMPLETE, 0)
    if not slot.status:
        fold_rest(e, job, slot)
    if job.route == Route.RING and slot.nodes & ~bit_of(job.node_index) != ZERO:
        note_wants(job, slot)
        forward(e, job, slot)
        slot.unacked |= Sent.CONTRIBUTION
    elif not job.has_parent:
        complete_at_root(e, job, slot)
    elif slot.upward == Upward.ANSWERED:
        distribute(e, job, slot)
    elif slot.upward == Upward.SENT:
        slots.set_state(e, job, slot, SlotState.LOCAL)
    else:
        send_up(e, job, slot)


@internal
def note_wants(job, slot):
    """Ring: this node wants the result, unless it holds it already."""
    if slot.flags & Flag.WANTS_RESULT and not is_one_with_data(slot):
        slot.wants |= bit_of(job.node_index)


@internal
def send_up(e, job, slot):
    """The partial goes to the device above. Data that need not wait for the result go down as well."""
    forward(e, job, slot)
    slot.upward = Upward.SENT
    if goes_ahead_now(job, slot):
        send_ahead(e, job, slot)


@internal
def send_up_ahead(e, job, slot):
    """Send the data of a ONE position up without waiting for the headers of the other children."""
    start_timer(e, job, slot)
    send_contribution(e, job, slot)
    slot.upward = Upward.SENT


@internal
def may_go_up(slot):
    """Whether a slot's data have neither gone up nor come from above."""
    return slot.upward == Upward.NOTHING and not slot.ahead & Ahead.RECEIVED


@internal
def forward(e, job, slot):
    """Send the partial to the device above or the next node, and keep it until the result comes."""
    slots.set_state(e, job, slot, SlotState.LOCAL)
    if contributor_class(slot.flags) == ContributorClass.ALL and slot.flags & Flag.HAS_DATA and not slot.status:
        convert_partial(e, job, slot, payload_of(e, job, slot.position))
    start_timer(e, job, slot)
    send_contribution(e, job, slot)


@internal
def complete_at_root(e, job, slot):
    """This device is the last to add: round once, then distribute the result."""
    contributors = contributor_class(slot.flags)
    if slot.status == 0 and contributors == ContributorClass.ALL and slot.flags & Flag.HAS_DATA:
        finish_result(e, slot, payload_of(e, job, slot.position), slot.contributions > ONE)
    elif slot.status == 0 and contributors != ContributorClass.NONE and not slot.flags & Flag.HAS_DATA:
        abort(e, job, Status.OP_MISMATCH, 0, job.rank_mask)  # each rank takes another rank for the contributor
        return
    distribute(e, job, slot)


@internal
def distribute(e, job, slot):
    """The slot holds the result: give it to the ranks here and the devices below, or pass it round the ring."""
    slots.set_state(e, job, slot, SlotState.FINAL)
    if job.rank_mask != ZERO:
        deliver(e, job, slot, data_address(e, job, slot), slot.flags)
    if job.route == Route.RING:
        pass_result(e, job, slot, all_nodes(job))
    elif job.node_mask:
        fan_out(e, job, slot)
    else:
        slots.set_state(e, job, slot, SlotState.DONE)


# Results for other devices


@internal
def fan_out(e, job, slot):
    """One RESULT to each device below, or one to the group; only a header to a child that does not want the data, or to
    all if the data went ahead."""
    below = job.node_mask
    wants = ZERO if slot.ahead & Ahead.SENT else U64(slot.wants)
    job.sent_below = e.now
    slot.sent_at = e.now
    if goes_to_group(e, job, slot):
        send_result(e, job, slot, e.group, lowest_bit(below), below, wants)
        return
    first = lowest_bit(below)
    index = unicast_result(e, job, slot, first, wants)
    has_data = wants & bit_of(first) != ZERO
    below &= below - ONE
    while below:
        bit = lowest_bit(below)
        below &= below - ONE
        if (wants & bit_of(bit) != ZERO) == has_data:
            copy_result(e, job, index, child_at(e, child_index(job, bit)).address, bit, bit_of(bit))
        else:
            unicast_result(e, job, slot, bit, wants)


@internal
def unicast_result(e, job, slot, bit, wants):
    """The result to a device below, with data if it is in `wants`; returns the number of the SEND."""
    child = child_at(e, child_index(job, bit))
    return send_result(e, job, slot, child.address, bit, bit_of(bit), wants & bit_of(bit))


@internal
def pass_result(e, job, slot, nodes):
    """Ring: the result to the next node, unless all have it. nodes: those without it, including this one."""
    slot.nodes = nodes & ~bit_of(job.node_index)
    if slot.nodes:
        slot.unacked |= Sent.RESULT
        start_timer(e, job, slot)
        send_ring_result(e, job, slot)
    elif not slot.unacked:
        slots.set_state(e, job, slot, SlotState.DONE)


@internal
def send_ring_result(e, job, slot):
    """The result to the next node, with data if a node that lacks it wants them."""
    wanted = slot.wants & slot.nodes
    index = send_result(e, job, slot, job.next_address, job.node_index, slot.nodes, wanted)
    header_at(e, index).rank_bitmap = wanted


# Data ahead, for the devices below


@internal
def may_go_ahead(job, request, length):
    """Whether the `length` bytes of a segment go ahead: a whole message of one rank, short enough to come unasked."""
    if job.route == Route.LOCAL or request.contributors != ContributorClass.ONE:
        return False
    return request.count == 1 and U64(length) == request.length and request.length <= MAX_AHEAD_BYTES


@internal
def goes_ahead_now(job, slot):
    """Whether a slot holds data that are due to the devices below."""
    if job.route == Route.RING or job.node_mask == ZERO or slot.ahead & Ahead.SENT or slot.status:
        return False
    return is_one_with_data(slot) and slot.flags & Flag.AHEAD != 0


@internal
def send_ahead(e, job, slot):
    """Send the data of a slot to the devices below that may lack them: those that want them, and those that have not
    contributed. Nothing acknowledges or repeats these packets."""
    below = U64(slot.wants) | U64(slot.node_missing)
    if below == ZERO:
        return
    slot.ahead |= Ahead.SENT
    first = lowest_bit(below)
    if serves_by_group(e, job, below):
        header_at(e, send_result(e, job, slot, e.group, first, below, below)).flags |= Flag.AHEAD
        return
    index = send_result(e, job, slot, child_at(e, child_index(job, first)).address, first, bit_of(first), below)
    header_at(e, index).flags |= Flag.AHEAD
    below &= below - ONE
    while below:
        bit = lowest_bit(below)
        below &= below - ONE
        copy_result(e, job, index, child_at(e, child_index(job, bit)).address, bit, bit_of(bit))


# Results for the ranks of this node


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
def is_lowest_rank(e, queue_index, rank):
    """Whether `rank` is the lowest of a queue, so that each queue is served once."""
    bitmap = queue_at(e, queue_index).rank_bitmap
    return (bitmap & ((U64(1) << U64(rank)) - U64(1))) == U64(0)


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
    trace(e, job, slot, Step.WRITTEN, lowest_bit(U64(queue_at(e, queue_index).rank_bitmap)))
    request.status = max(request.status, max(slot.status, request.poison))
    request.done += 1
    retire(e, queue_index)
    return True


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
def bypasses_caches(request, entry, segment):
    """Whether a segment's result is stored past the caches: the message is long, the result not in place. (The data of
    an in-place segment have just been read: an ordinary store finds their lines in the cache, a non-temporal one would
    first have to evict them.)"""
    return request.is_long and not is_in_place(request, entry, segment)


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
def arrival_limit(job):
    """Bytes of the longest message that arrives before its rank asks. Over the network longer ones do not go ahead, so
    their senders need not wait for room in an arrival ring."""
    return MAX_ARRIVAL if job.route == Route.LOCAL else MAX_ARRIVAL_OVER_NETWORK


# A write that failed


@internal
def fail_write(e, index, end):
    """The DMA_WRITE `index` of the table of `end` actions failed, and so does its request. If the request is complete
    already, its completion is later in the table, unless it is not signaled."""
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
    """The completion of a request that is not signaled and has failed."""
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

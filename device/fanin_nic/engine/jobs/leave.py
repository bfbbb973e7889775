"""LEAVE: ranks and devices leave a job in any order; the job is freed when all have left."""

from fanin_nic.engine.jobs.abort import free_record
from fanin_nic.engine.jobs.config import begin_leave, is_released_above
from fanin_nic.engine.jobs.lease import free_slots
from fanin_nic.engine.jobs.missing import abort_naming, lost_device_in, scope_below, scope_from_peer
from fanin_nic.engine.output import notice, packet
from fanin_nic.engine.records.accessors import (
    ONE,
    U64,
    ZERO,
    abort,
    bit_of,
    count,
    header_at,
    job_at,
    queue_at,
    slot_at,
    slot_index,
)
from fanin_nic.engine.records.tables import Counter, JobState, Leave, SlotState, Upward
from fanin_nic.engine.slots import waits_for_departed
from fanin_nic.native.compiled import internal
from fanin_wire.abi import MAX_CHILDREN, MessageType, Route, Status
from fanin_wire.fields import Opcode


@internal
def leave_queue(e, queue_index, tag):
    """Event: a queue pair leaves its job, which aborts if requests are outstanding or members have not joined."""
    queue = queue_at(e, queue_index)
    if queue.job:
        job = job_at(e, queue.job - 1)
        if job.state < JobState.ACTIVE:
            abort_forming(e, job)
        elif queue.head != queue.tail:
            abort(e, job, Status.ABORTED, 0, queue.rank_bitmap)
        unbind_queue(queue, job)
        abort_if_member_left(e, job)
        progress_leave(e, job)
    queue.tag = tag
    notice(e, queue_index, MessageType.LEAVE, Status.SUCCESS, 0, U64(0))


@internal
def abort_forming(e, job):
    """Abort a forming job with TIMEOUT, naming the members that have not joined."""
    scope, missing = not_joined(job)
    abort(e, job, Status.TIMEOUT, scope, missing)


@internal
def not_joined(job):
    """(scope, bitmap): ranks of this node, devices below, or what the device above said."""
    ranks, nodes = job.rank_mask & ~job.rank_joined, job.config_mask & ~job.node_joined
    if ranks != ZERO:
        return 0, U64(ranks)
    if nodes != ZERO:
        return scope_below(job), U64(nodes)
    return int(job.missing_kind), U64(job.missing)


@internal
def abort_if_member_left(e, job):
    """Abort a job in which a slot waits for a member that has left."""
    for offset in range(job.slots if job.state == JobState.ACTIVE or job.state == JobState.LEAVING else 0):
        slot = slot_at(e, slot_index(job, job.base + offset))
        if slot.state == SlotState.OPEN and waits_for_departed(job, slot):
            abort_departed(e, job, slot)
            return


@internal
def lose_queue(e, queue_index, status):
    """Event: the process of a queue pair has ended. Its job aborts."""
    queue = queue_at(e, queue_index)
    if queue.job:
        job = job_at(e, queue.job - 1)
        queue.joined = 1  # an answer to its JOIN would reach the next client of the queue
        abort(e, job, status, 0, queue.rank_bitmap)
        unbind_queue(queue, job)
        progress_leave(e, job)
    queue.active = 0


@internal
def fail_queue(e, queue_index, status):
    """Event: the requests of a queue pair can not be performed. All requests of the job end with `status`."""
    queue = queue_at(e, queue_index)
    if queue.job:
        abort(e, job_at(e, queue.job - 1), status, 0, queue.rank_bitmap)


@internal
def unbind_queue(queue, job):
    """Mark the ranks of a queue as left, and drop its requests."""
    job.rank_left |= queue.rank_bitmap
    for rank in range(MAX_CHILDREN):
        if queue.rank_bitmap & bit_of(rank) != ZERO:
            job.queue[rank] = 0
    queue.job = 0
    queue.joined = 0
    queue.reading = 0
    queue.rank_bitmap = ZERO
    queue.head = queue.tail
    queue.read = queue.tail
    queue.read_segments = 0


@internal
def progress_leave(e, job):
    """When all members below have left, leave the device above and the next node, then free the job."""
    if job.rank_joined & ~job.rank_left != ZERO:
        return
    if must_leave_above(job) and may_leave(e, job):
        begin_leave(e, job)
    if all_below_left(job) and is_released_above(job):
        if job.state == JobState.ABORTED and has_members_to_come(job):
            free_slots(e, job)
            e.next_deadline = min(e.next_deadline, e.now + e.ageing + ONE)  # a job within one node has no other timer
        else:
            free_record(e, job)


@internal
def must_leave_above(job):
    unsaid = job.parent_leave == Leave.NOT_YET and job.next_leave == Leave.NOT_YET
    return unsaid and (job.has_parent or job.route == Route.RING)


@internal
def has_members_to_come(job):
    """Whether members must still learn why a job has ended; its record then stays until it ages. They are the missing
    members of a job that never formed, and in a ring the previous node, unless it is the lost one: nothing is repeated
    to it."""
    if job.window:
        named = job.missing_kind == scope_below(job) and U64(job.missing) & job.node_mask != ZERO
        previous_lost = named and job.status == Status.PEER_LOST
        return job.route == Route.RING and job.node_mask & ~job.node_left != ZERO and not previous_lost
    unheard = job.rank_mask == ZERO and job.config_mask == ZERO
    return unheard or job.rank_mask & ~job.rank_left != ZERO or job.config_mask & ~job.node_left != ZERO


@internal
def all_below_left(job):
    """Whether all members below have left; in an ended ring the previous node need not say so."""
    if job.state == JobState.ABORTED:
        return job.route == Route.RING or job.node_joined & ~job.node_left == ZERO
    return job.rank_left == job.rank_mask and job.node_left == job.node_mask


@internal
def may_leave(e, job):
    """Whether this device needs no more answers from above; in a ring, whether its sends are acknowledged. Ranks that
    had their data ahead of the result may leave before it comes."""
    if job.state == JobState.ABORTED:
        return all_below_left(job)
    if job.route == Route.RING:
        return job.rank_left == job.rank_mask and job.in_flight == 0
    return all_below_left(job) and not awaits_result(e, job)


@internal
def awaits_result(e, job):
    """Whether a position was sent up and has no result."""
    for offset in range(job.slots if job.in_flight else 0):
        slot = slot_at(e, slot_index(job, job.base + offset))
        if slot.upward == Upward.SENT and (slot.state == SlotState.OPEN or slot.state == SlotState.LOCAL):
            return True
    return False


@internal
def acknowledge_leave(e, job, destination, source):
    header_at(e, packet(e, job, Opcode.LEAVE_ACK, destination)).source = source


@internal
def on_leave(e, job, header, source):
    """Event: LEAVE of a device below, with a status after a failure there.

    Outside a ring the status of a second LEAVE is ignored: a late CONFIG has made a record without ranks at the sender,
    and that record has failed, not the job.
    """
    had_left = job.route != Route.RING and job.node_left & bit_of(header.source) != ZERO
    acknowledge_leave(e, job, source, header.source)
    job.node_left |= bit_of(header.source) & (job.node_mask | job.config_mask)
    if header.status and not had_left:
        scope = scope_from_peer(job, header)
        named = U64(header.node_bitmap)
        if named == ZERO:  # the sender alone; `seg` means nothing
            scope, named = scope_below(job), bit_of(header.source)
        job.offered_slots = 0  # the sender's free slots are not known
        abort_naming(e, job, header.status, scope, named, lost_device_in(header))
    abort_if_member_left(e, job)
    progress_leave(e, job)


@internal
def on_leave_ack(e, job, source):
    """Event: LEAVE_ACK of the device above or the next node."""
    if job.state != JobState.LEAVING and job.state != JobState.ABORTED:
        count(e, Counter.DROP_UNEXPECTED)
        return
    above = job.has_parent and source == job.parent_address
    if (job.parent_leave if above else job.next_leave) == Leave.ACKNOWLEDGED:
        count(e, Counter.DROP_DUPLICATE)
        return
    if above:
        job.parent_leave = Leave.ACKNOWLEDGED
    else:
        job.next_leave = Leave.ACKNOWLEDGED
    progress_leave(e, job)


@internal
def abort_departed(e, job, slot):
    """Abort a job with ABORTED, naming the members of a slot that left before the others were done."""
    here = slot.rank_missing & job.rank_left
    if here != ZERO:
        abort(e, job, Status.ABORTED, 0, here)
    else:
        abort(e, job, Status.ABORTED, scope_below(job), slot.node_missing & job.node_left)

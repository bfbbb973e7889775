"""Abort: a job ends early, all neighbours learn why, and a tombstone answers late packets.

A tombstone without slots only remembers, for members yet to come, how an incarnation of a job ended. It gives way to
any other incarnation. A refused incarnation needs one, too. The member whose CONFIG was refused has given up, but a
copy of that CONFIG may still arrive. At a device that has forgotten the refusal it would count for the member: the job
would form without it, and fail in use. So the record in the way remembers the key that it refused last, and leaves a
tombstone of that incarnation when freed. Only the last of several refused incarnations is protected.

Record 0021: which faults end the job, and which only a request.
"""

from numba import int64

from fanin_nic.engine.jobs.config import begin_leave
from fanin_nic.engine.jobs.lease import SHARED, clear_record, new_job, release
from fanin_nic.engine.jobs.missing import (
    lost_device_in,
    scope_from_peer,
    set_missing_above,
    set_missing_below,
    set_missing_beside,
)
from fanin_nic.engine.output import notice, packet
from fanin_nic.engine.records.accessors import ONE, U64, child_at, child_index, count, header_at, job_at, queue_at
from fanin_nic.engine.records.tables import ENGINE, JOB, Counter, JobState
from fanin_nic.native.compiled import internal, internal_for
from fanin_nic.native.memory import lowest_bit
from fanin_wire.abi import MAX_CHILDREN, MessageType, Route, Status
from fanin_wire.fields import Opcode


@internal
def end_job(e, job, status, missing_kind, missing):
    """End a job with a status, once. missing: bitmap of missing members, of scope `missing_kind`."""
    if job.state == JobState.ABORTED or job.state == JobState.FREE:
        return
    job.state = JobState.ABORTED
    job.status = status if status > Status.PENDING else Status.ABORTED  # a status from the network must be a reason
    job.missing_kind = missing_kind
    job.missing = missing
    count(e, Counter.JOBS_ABORTED)
    answer_joins(e, job)
    job.heard = e.now
    abort_below(e, job)
    if job.status == Status.PEER_LOST and missing_kind == 0 and e.is_switch:
        job.node_left |= missing & job.node_mask  # a lost device sends no LEAVE
    if job.has_parent and missing_kind:
        abort_above(e, job)
    if job.has_parent or job.route == Route.RING:
        begin_leave(e, job)


@internal
def answer_joins(e, job):
    """Answer the waiting JOINs with the status of the job."""
    for rank in range(MAX_CHILDREN):
        if not job.queue[rank]:
            continue
        queue_index = job.queue[rank] - 1
        if not queue_at(e, queue_index).joined:
            queue_at(e, queue_index).joined = 1
            notice(e, queue_index, MessageType.JOIN, job.status, job.missing_kind, U64(job.missing))


@internal
def abort_above(e, job):
    """ABORT to the device above, with the missing members there. (A LEAVE says only that this device has failed.)"""
    header = header_at(e, packet(e, job, Opcode.ABORT, job.parent_address))
    header.status = job.status
    header.rank_bitmap = job.lost_device
    header.source = job.parent_bit
    set_missing_above(job, header, job.missing_kind, U64(job.missing))


@internal
def abort_below(e, job):
    """ABORT to the devices below that have not left; in a ring to both neighbours."""
    if job.route == Route.RING:
        send_abort(e, job, job.previous_address, job.node_index)
        send_abort(e, job, job.next_address, job.node_index)
        return
    below = job.node_joined & ~job.node_left
    while below:
        bit = lowest_bit(below)
        below &= below - ONE
        send_abort(e, job, child_at(e, child_index(job, bit)).address, bit)


@internal_for(ENGINE, JOB, int64, int64)
def send_abort(e, job, destination, source):
    """ABORT to a device below or a node of the same ring, unasked or in answer to a packet of the ended job."""
    header = header_at(e, packet(e, job, Opcode.ABORT, destination))
    header.status = job.status
    header.rank_bitmap = job.lost_device
    header.source = source
    if job.route == Route.RING:
        set_missing_beside(job, header, job.missing_kind, U64(job.missing))
    else:
        set_missing_below(header, job.missing_kind, U64(job.missing))


@internal
def free_record(e, job):
    """Free a job that has ended here. The tombstone of the incarnation that it refused takes its record."""
    index, jid, refused, key = job.index, job.jid, job.has_refused, job.refused_key
    release(e, job)
    if refused:
        clear_record(e, index, jid, key, SHARED)
        mark_as_tombstone(e, job_at(e, index), Status.JID_IN_USE)


@internal
def create_tombstone(e, header, source):
    """A member reports the failure of a job unknown here: make a tombstone for the members to come."""
    made = new_job(e, header.jid, header.key, source)
    if made:
        job = job_at(e, made - 1)
        job.missing_kind = scope_from_peer(job, header)
        job.missing = header.node_bitmap
        job.lost_device = lost_device_in(header)
        mark_as_tombstone(e, job, header.status)


@internal
def mark_as_tombstone(e, job, status):
    """Make a fresh record the tombstone of a job that ended with a status. It ages."""
    job.state = JobState.ABORTED
    job.status = status
    job.heard = e.now
    e.next_deadline = min(e.next_deadline, e.now + e.ageing + ONE)


@internal
def gives_way_to(job, key):
    """Whether a record is a tombstone without slots, whose place the incarnation with a key may take."""
    is_refused = job.has_refused and job.refused_key == key
    return job.state == JobState.ABORTED and job.slots == 0 and job.key != key and not is_refused


@internal
def remember_refusal(job, key):
    """The incarnation with a key is refused because of this record."""
    job.has_refused = 1
    job.refused_key = key

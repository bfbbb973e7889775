"""Abort: a job ends early, all neighbours learn why, and its record stays as a tombstone until all have left.

Record 0021: which faults end the job, and which only a request.
"""

from numba import int64

from fanin_nic.engine.jobs.config_leave_tx import begin_leave
from fanin_nic.engine.jobs.missing_scope import set_missing_above, set_missing_below, set_missing_beside
from fanin_nic.engine.output.completions import notice
from fanin_nic.engine.output.encapsulate import packet
from fanin_nic.engine.records.accessors import ONE, U64, child_at, child_index, count, header_at, queue_at
from fanin_nic.engine.records.tables import ENGINE, JOB, MAX_CHILDREN, Counter, JobState
from fanin_nic.native.compiled import internal, internal_for
from fanin_nic.native.memory import lowest_bit
from fanin_wire.abi import MessageType, Route, Status
from fanin_wire.fields import Opcode


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

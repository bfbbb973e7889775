"""The end of a job before its time: everybody learns why, the record stays as a tombstone until all have left."""

from __future__ import annotations

from fanin_nic.engine.completion.retire import notice
from fanin_nic.engine.control.upward import begin_leave, missing_nodes
from fanin_nic.engine.packet.encapsulate import packet
from fanin_nic.engine.state import (
    MAX_CHILDREN,
    ONE,
    U64,
    Counter,
    JobState,
    bit_of,
    child_at,
    child_index,
    count,
    header_at,
    queue_at,
)
from fanin_nic.native.compiled import compiled
from fanin_nic.native.memory import lowest_bit
from fanin_wire.abi import MessageType, Route, Status
from fanin_wire.fields import Opcode

ABORTED, FREE = int(JobState.ABORTED), int(JobState.FREE)
ABORT = int(Opcode.ABORT)
PENDING, STATUS_ABORTED = int(Status["PENDING"]), int(Status["ABORTED"])
JOIN = int(MessageType.JOIN)
RING = int(Route.RING)
PEER_LOST = int(Status.PEER_LOST)
JOBS_ABORTED = int(Counter.JOBS_ABORTED)


@compiled
def cut_off(job):
    """Bitmap of who is lost when the device above is silent: in a ring the next node, else all that is behind it."""
    if job.route == RING:
        return bit_of((job.node_index + 1) % job.node_count)
    return U64(job.parent_mask)


@compiled
def send_abort(e, job, destination, source):
    """Tell one device why the job has ended; also the answer to whatever it still sends."""
    header = header_at(e, packet(e, job, ABORT, destination))
    header.status = job.status
    header.source = source
    header.node_bitmap = missing_nodes(job)


@compiled
def abort(e, job, status, missing_kind, missing):
    """End a job with a status, once. `missing`: ranks (kind 0) or nodes (kind 1) that it is about."""
    if job.state == ABORTED or job.state == FREE:
        return
    job.state = ABORTED
    job.status = status if status > PENDING else STATUS_ABORTED  # what comes from the network must be a reason
    job.missing_kind = missing_kind
    job.missing = missing
    count(e, JOBS_ABORTED)
    answer_joins(e, job)
    job.heard = e.now
    abort_below(e, job)
    if job.status == PEER_LOST and missing_kind and e.is_switch:
        job.node_left |= missing & job.node_mask  # whoever is lost will not leave any more
    if job.has_parent and missing_kind and job.route != RING:
        send_abort(e, job, job.parent_address, job.parent_bit)
    if job.has_parent:
        begin_leave(e, job)


@compiled
def abort_below(e, job):
    """ABORT to the devices below that have not left; in a ring, to the previous node."""
    if job.route == RING:
        send_abort(e, job, job.previous_address, job.node_index)
        send_abort(e, job, job.parent_address, job.node_index)
        return
    below = job.node_joined & ~job.node_left
    while below:
        bit = lowest_bit(below)
        below &= below - ONE
        send_abort(e, job, child_at(e, child_index(job, bit)).address, bit)


@compiled
def answer_joins(e, job):
    """Ranks that still wait for their JOIN get the status."""
    for rank in range(MAX_CHILDREN):
        if not job.queue[rank]:
            continue
        queue_index = job.queue[rank] - 1
        if not queue_at(e, queue_index).joined:
            queue_at(e, queue_index).joined = 1
            notice(e, queue_index, JOIN, job.status, job.missing_kind, U64(job.missing))

"""Tombstones without slots: a record that only remembers, for members yet to come, how an incarnation of a job ended.
It gives way to any other incarnation.

A refused incarnation needs one. The member whose CONFIG was refused has given up, but a copy of that CONFIG may still
arrive. At a device that has forgotten the refusal it would count for the member: the job would form without it, and
fail in use. So the record in the way remembers the key that it refused last, and leaves a tombstone of that incarnation
when freed. Only the last of several refused incarnations is protected.
"""

from fanin_nic.engine.jobs.lease import clear_record, new_job, release
from fanin_nic.engine.jobs.lost_device import lost_device_in
from fanin_nic.engine.jobs.missing_scope import scope_from_peer
from fanin_nic.engine.jobs.quota import SHARED
from fanin_nic.engine.records.accessors import ONE, job_at
from fanin_nic.engine.records.tables import JobState
from fanin_nic.native.compiled import internal
from fanin_wire.abi import Status


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

"""Abort by another device: it reports that a job has ended, or does not know the job."""

from fanin_nic.engine.jobs.lost_device import abort_lost, abort_naming, lost_device_in
from fanin_nic.engine.records.accessors import U64, count
from fanin_nic.engine.records.tables import Counter, JobState
from fanin_nic.engine.segments.missing_members import narrow_missing
from fanin_nic.native.compiled import internal


@internal
def on_remote_abort(e, job, header, scope):
    """End the job for a reason from another device, naming the missing members as exactly as possible here."""
    job.offered_slots = 0  # the sender's free slots are not known
    scope, missing = narrow_missing(e, job, header.status, scope, U64(header.node_bitmap))
    abort_naming(e, job, header.status, scope, missing, lost_device_in(header))


@internal
def on_remote_restart(e, job, scope, missing, address):
    """A NAK for a running job: its sender, at `address`, was restarted."""
    if job.state == JobState.ACTIVE:
        abort_lost(e, job, scope, missing, address)
    else:
        count(e, Counter.DROP_UNEXPECTED)

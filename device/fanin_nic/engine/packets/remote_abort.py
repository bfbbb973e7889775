"""Abort by another device: it reports that a job has ended, or that it does not know the job."""

from __future__ import annotations

from fanin_nic.engine.records.accessors import U64, count
from fanin_nic.engine.records.function_table import abort
from fanin_nic.engine.records.tables import Counter, JobState
from fanin_nic.engine.segments.missing_members import narrow_missing
from fanin_nic.native.compiled import internal
from fanin_wire.abi import Status

ACTIVE = int(JobState.ACTIVE)
PEER_LOST = int(Status.PEER_LOST)
DROP_UNEXPECTED = int(Counter.DROP_UNEXPECTED)


@internal
def on_remote_abort(e, job, header, scope):
    """End the job for the reason that another device reports, naming the missing members as exactly as this device
    can."""
    job.offered_slots = 0  # the slots that the sender could lease are not known
    scope, missing = narrow_missing(e, job, header.status, scope, U64(header.node_bitmap))
    abort(e, job, header.status, scope, missing)


@internal
def on_remote_restart(e, job, scope, missing):
    """A NAK for a running job: its sender was restarted."""
    if job.state == ACTIVE:
        abort(e, job, PEER_LOST, scope, missing)
    else:
        count(e, DROP_UNEXPECTED)

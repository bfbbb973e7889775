"""A job has ended at another device, which says so, or knows nothing of it any more."""

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
    """End the job as another device has, which can name whom it blames less exactly than this one may."""
    job.offered_slots = 0  # what would fit elsewhere is not known
    scope, missing = narrow_missing(e, job, header.status, scope, U64(header.node_bitmap))
    abort(e, job, header.status, scope, missing)


@internal
def on_remote_restart(e, job, scope, missing):
    """A device has forgotten a running job: it was restarted."""
    if job.state == ACTIVE:
        abort(e, job, PEER_LOST, scope, missing)
    else:
        count(e, DROP_UNEXPECTED)

"""Repairs that never succeed: a neighbour answers PROBEs, or is heard otherwise, but neither the contribution arrives
there nor the result here. Headers pass and data do not: the job ends with PATH_MTU.

Only a series of PROBEs proves it. A new series begins if a repaired position is asked for much later because a rank is
late, and while the neighbour is silent, as the path then carries nothing at all. The time for which this device stood
still does not count. In a ring a next node that has never acknowledged anything may still form its job, over another
path that is the bad one; it reports that itself.
"""

from fanin_nic.engine.jobs.path_mtu import abort_path
from fanin_nic.engine.records.accessors import ONE, U64, ZERO
from fanin_nic.engine.segments.rto import MAX_RTO
from fanin_nic.native.compiled import internal

MIN_SERIES = U64(2) * MAX_RTO  # ns: at least three PROBEs, however short the detection time


@internal
def abort_if_repair_fails(e, job, slot, is_next):
    """A PROBE for a position is due: end the job if the first of its series is older than the detection time; returns
    whether it did. A neighbour that is silent as well counts as lost elsewhere."""
    clock = max(ONE, U64(e.now) - job.stalled_ns)
    heard = U64(job.heard_next if is_next else job.heard)
    begins = e.now - heard > e.detection // U64(2) or (is_next and not job.next_has_answered)
    begins = begins or slot.first_probe_at == ZERO or clock - slot.last_probe_at > max(e.detection // U64(2), MAX_RTO)
    slot.last_probe_at = clock
    if begins:
        slot.first_probe_at = clock
        return False
    if clock - slot.first_probe_at <= max(e.detection, MIN_SERIES):
        return False
    abort_path(e, job, is_next)
    return True

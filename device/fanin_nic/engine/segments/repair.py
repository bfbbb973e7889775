"""Repairs that never succeed: PROBEs reach a neighbour and are answered, or the neighbour is heard otherwise, and still
neither the contribution arrives there nor the result here. Headers pass and data do not: the job ends with PATH_MTU.

Only a series of PROBEs says so. A position that was repaired, and is asked for again much later because a rank is late,
begins a new series, and so does one that is asked for while the neighbour is silent: then the path has carried nothing
at all. The time for which this device has stood still does not count. In a ring a next node that has never acknowledged
anything may still be forming its job, over another path that is the bad one: it says so itself.
"""

from fanin_nic.engine.jobs.path_mtu import abort_path
from fanin_nic.engine.records.accessors import ONE, U64, ZERO
from fanin_nic.engine.segments.rto import MAX_RTO
from fanin_nic.native.compiled import internal

MIN_SERIES = U64(2) * MAX_RTO  # ns: three PROBEs at least, however short the detection time


@internal
def abort_if_repair_fails(e, job, slot, is_next):
    """Note that a PROBE for a position is due. If the first of its series is older than the detection time, end the
    job. Returns whether it did. A neighbour that is silent as well is lost, which is found elsewhere."""
    clock = max(ONE, U64(e.now) - job.stood_still)
    heard = U64(job.heard_next if is_next else job.heard)
    begins = e.now - heard > e.detection // U64(2) or (is_next and not job.next_has_answered)
    begins = begins or slot.first_asked == ZERO or clock - slot.last_asked > max(e.detection // U64(2), MAX_RTO)
    slot.last_asked = clock
    if begins:
        slot.first_asked = clock
        return False
    if clock - slot.first_asked <= max(e.detection, MIN_SERIES):
        return False
    abort_path(e, job, is_next)
    return True

"""Steps of segments for the device's tap, at the time of the event in progress. Without a tap they cost one branch."""

from numba import int64

from fanin_nic.engine.records.accessors import U64, ZERO
from fanin_nic.engine.records.tables import ENGINE, JOB
from fanin_nic.native.compiled import internal, internal_for
from fanin_nic.native.tap import reserve, segment_at, tap_at
from fanin_wire.tap import Record


@internal
def trace(e, job, slot, step, who):
    """A step of the position of a slot."""
    if e.tap != ZERO:
        record(e, job, step, slot.position, slot.mid, 1, who)


@internal
def trace_run(e, job, step, position, mid, count, who):
    """A step of `count` positions from `position` on."""
    if e.tap != ZERO:
        record(e, job, step, position, mid, count, who)


@internal_for(ENGINE, JOB, int64, int64, int64, int64, int64)
def record(e, job, step, position, mid, count, who):
    """Write the record, if the tap wants the job."""
    tap = tap_at(U64(e.tap))
    if tap.one_job and tap.jid != job.jid:
        return
    place = reserve(tap, 1)
    if place:
        segment = segment_at(place)
        segment.time, segment.kind, segment.detail = e.now, Record.SEGMENT, step
        segment.jid, segment.position, segment.mid = job.jid, position, mid
        segment.count, segment.who = count, who

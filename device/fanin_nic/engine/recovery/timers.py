"""The timer of a slot that has sent and waits, and what is known of the round trip.

The time-out starts at `rto`. It is shortened to the reorder time when a later position is answered first, or when
something else proves lost, and doubled with each answer WAIT up to the keep-alive interval. Of positions that
are merely silent only the lowest is asked for: a rank that is late is late for all. The reorder time is learnt: halved
when what was overtaken proves lost, doubled when it was only late (kernels reorder when a thread changes its core).
Round trips are measured on probe and answer only: a PROBE carries the time in microseconds as its token, its answer
returns it.
"""

from __future__ import annotations

from fanin_nic.engine.segment import slots
from fanin_nic.engine.state import U64, ZERO, distance, slot_at, slot_index
from fanin_nic.engine.tables import Upward
from fanin_nic.native.compiled import internal

LOCAL, OPEN = slots.LOCAL, slots.OPEN
SENT = int(Upward.SENT)
MICROSECOND = U64(1000)
SHORTEST_REORDER = U64(1_000_000)
SHORTEST_RTO = U64(5_000_000)
LONGEST_RTO = U64(1_000_000_000)


@internal
def token(e):
    """Time stamp of a PROBE: microseconds modulo 2^32, never 0."""
    return ((e.now // MICROSECOND) & U64(0xFFFFFFFF)) | U64(1)


@internal
def measure(e, job, echoed):
    """Learn from the token that an answer returned (RFC 6298)."""
    if not echoed:
        return
    elapsed = (((e.now // MICROSECOND) - U64(echoed)) & U64(0xFFFFFFFF)) * MICROSECOND
    if elapsed > LONGEST_RTO:
        return
    if job.srtt == ZERO:
        job.srtt = elapsed
        job.rttvar = elapsed // U64(2)
    else:
        error = max(job.srtt, elapsed) - min(job.srtt, elapsed)
        job.rttvar += (error >> U64(2)) - (job.rttvar >> U64(2))
        job.srtt += (elapsed >> U64(3)) - (job.srtt >> U64(3))
    job.rto = min(LONGEST_RTO, max(SHORTEST_RTO, job.srtt + U64(4) * job.rttvar))


@internal
def shorten(e, job, slot):
    """Something sent later was answered first: expect an answer within the reorder time."""
    slot.overtaken = 1
    slot.deadline = min(slot.deadline, e.now + job.reorder)
    e.next_deadline = min(e.next_deadline, slot.deadline)


@internal
def overtaken(e, job, slot):
    """A result has come for `slot`: earlier positions that were sent before it are overtaken. If it had to be asked
    for, all that are without an answer are suspect."""
    if slot.unanswered:
        suspect(e, job)
    behind = distance(slot.position, job.base)
    for offset in range(behind):
        earlier = slot_at(e, slot_index(job, job.base + offset))
        if earlier.upward == SENT and earlier.sent_at <= slot.sent_at and not earlier.overtaken:
            shorten(e, job, earlier)


@internal
def suspect(e, job):
    """Something was lost; whatever else is without an answer may be, too."""
    for offset in range(job.slots):
        slot = slot_at(e, slot_index(job, job.base + offset))
        if is_unanswered(slot) and not slot.overtaken:
            shorten(e, job, slot)


@internal
def is_unanswered(slot):
    """Whether a slot has sent something and waits for an answer."""
    return slot.unacked != 0 or (slot.upward == SENT and (slot.state == LOCAL or slot.state == OPEN))


@internal
def postpone(e, job, slot):
    """Another position is asked for in place of this one."""
    slot.deadline = e.now + job.rto
    e.next_deadline = min(e.next_deadline, slot.deadline)


@internal
def back_off(e, job, slot):
    """A probe is out: wait longer for each that stays without answer."""
    interval = min(e.keepalive, job.rto << U64(min(slot.retries, 8)))
    slot.retries = min(slot.retries + 1, 255)
    slot.unanswered = min(slot.unanswered + 1, 255)
    slot.deadline = e.now + interval
    e.next_deadline = min(e.next_deadline, slot.deadline)


@internal
def waited(e, job, slot):
    """The other side has everything from here: ask again, after a time that doubles up to the keep-alive interval."""
    slot.overtaken = 0
    slot.unanswered = 0
    slot.deadline = e.now + min(e.keepalive, job.rto << U64(min(slot.retries, 8)))
    e.next_deadline = min(e.next_deadline, slot.deadline)


@internal
def proved_lost(e, job):
    """What was asked for was lost."""
    job.reorder = max(SHORTEST_REORDER, job.reorder // U64(2))
    suspect(e, job)


@internal
def proved_late(job):
    """What was asked for was only late."""
    job.reorder = min(job.rto, job.reorder * U64(2))

"""When a position that has been sent is asked for, and what the answers teach.

| position | asked for |
| --- | --- |
| merely silent | if it is the lowest, a time-out (`patience`) after it was sent and after the last answer to any |
| overtaken: something sent later was answered first | after the reorder time |
| asked for, no answer | after the time-out, doubled with each PROBE, up to the keep-alive interval |
| asked for, answer WAIT | after `patience`, doubled likewise; as if it were sent now when anything else is answered |

Of positions that are merely silent only the lowest is asked for: a rank that is late is late for all. When it proves
lost, what had been silent as long is asked for at once.

Silence tells of late ranks first. So while no loss has been proved for the detection time, `patience` is not less than
the first RTO, however short the round trip, and up to ten times as long on a device whose own timers run late: there
many share a core. Who asked sooner would get results twice that are under way. After a loss it is the RTO.

The reorder time is learnt. At first it is long, because kernels reorder when a thread changes its core, and without
loss nobody shall ask. A proven loss halves it, or more, to two round trips; it doubles when what was asked for was only
late. A WAIT for something overtaken is such a proof, since what overtook it was sent by all: somebody else's share was
lost. (In a ONE position one may bring the data before the others have sent what comes before.) Round trips are
measured on probe and answer only: a PROBE carries the time in microseconds as its token, its answer returns it.
"""

from __future__ import annotations

from fanin_nic.engine.records.accessors import U64, ZERO, distance, slot_at, slot_index
from fanin_nic.engine.records.tables import OutOfOrder, Upward
from fanin_nic.engine.slots import slot_rule
from fanin_nic.engine.slots.contribution import CLASS_ONE, contributor_class
from fanin_nic.native.compiled import internal

LOCAL, OPEN = slot_rule.LOCAL, slot_rule.OPEN
SENT = int(Upward.SENT)
BY_ONE, BY_ALL = int(OutOfOrder.BY_ONE), int(OutOfOrder.BY_ALL)
MICROSECOND = U64(1000)
MIN_REORDER = U64(200_000)
MIN_RTO = U64(1_000_000)
MAX_RTO = U64(1_000_000_000)
MAX_RTO_FACTOR = 10  # times the first RTO


@internal
def probe_token(e):
    """Time stamp of a PROBE: odd microseconds modulo 2^32, so never 0."""
    return ((e.now // MICROSECOND) & U64(0xFFFFFFFF)) | U64(1)


@internal
def probe_age(e, echoed):
    """How long ago a PROBE with this token left, ns."""
    return ((probe_token(e) - U64(echoed)) & U64(0xFFFFFFFF)) * MICROSECOND


@internal
def measure_rtt(e, job, echoed):
    """Learn from the token that an answer returned (RFC 6298)."""
    if not echoed:
        return
    elapsed = probe_age(e, echoed)
    if elapsed > MAX_RTO:
        return
    if job.srtt == ZERO:
        job.srtt = elapsed
        job.rttvar = elapsed // U64(2)
    else:
        error = max(job.srtt, elapsed) - min(job.srtt, elapsed)
        job.rttvar += (error >> U64(2)) - (job.rttvar >> U64(2))
        job.srtt += (elapsed >> U64(3)) - (job.srtt >> U64(3))
    job.rto = min(MAX_RTO, max(MIN_RTO, job.srtt + U64(4) * job.rttvar))


@internal
def is_lossy(e, job):
    """Whether a loss has been proved within the detection time."""
    return job.lost_at != ZERO and e.now - job.lost_at < e.detection


@internal
def timer_lag(e):
    """For how long the timers of this device should have run: that long it has stood still, at least."""
    return e.now - e.next_deadline if e.now > e.next_deadline else ZERO


@internal
def note_timer_lag(e):
    """Timers run. Where they run late, this device waits for a core, and its neighbours perhaps, too."""
    e.lateness = max(timer_lag(e), e.lateness - (e.lateness >> U64(3)))


@internal
def current_rto(e, job):
    """How long silence is taken for lateness."""
    if is_lossy(e, job):
        return U64(job.rto)
    return max(U64(job.rto), U64(e.rto) + min(e.lateness << U64(3), U64(MAX_RTO_FACTOR - 1) * e.rto))


@internal
def is_loss_suspected(slot):
    """Whether there is more against a position than silence."""
    return slot.out_of_order != 0 or slot.retries != 0


@internal
def due_time(e, job, slot):
    """When a position is asked for, if it is suspect or the lowest."""
    if not is_loss_suspected(slot):
        return max(slot.deadline, job.answered_at + current_rto(e, job))
    if slot.unanswered == 0 and job.answered_at > slot.sent_at:  # the stream goes on since it was told to wait
        return min(slot.deadline, job.answered_at + job.rto)
    return U64(slot.deadline)


@internal
def shorten_deadline(e, job, slot, by):
    """Something sent later was answered first (`by`: Overtaken): expect an answer within the reorder time."""
    slot.deadline = max(e.now, min(due_time(e, job, slot), e.now + job.reorder))
    slot.out_of_order = by
    e.next_deadline = min(e.next_deadline, slot.deadline)


@internal
def mark_out_of_order(e, job, slot):
    """A result has come for `slot`: earlier positions that were sent before it are overtaken."""
    by = BY_ONE if contributor_class(slot.flags) == CLASS_ONE else BY_ALL
    for offset in range(distance(slot.position, job.base)):
        earlier = slot_at(e, slot_index(job, job.base + offset))
        if awaits_answer(earlier) and earlier.sent_at <= slot.sent_at and earlier.out_of_order < by:
            shorten_deadline(e, job, earlier, by)


@internal
def note_progress(e, job):
    """A position has been answered: the stream is not silent."""
    job.answered_at = e.now
    e.next_deadline = min(e.next_deadline, e.now + job.rto)


@internal
def note_answer(e, job, slot, echoed):
    """A result has come, as the answer to the PROBE with the token `echoed`, or (0) by itself. Whether it was lost."""
    note_progress(e, job)
    if echoed and slot.unanswered:
        note_proven_loss(e, job, slot, echoed)
        return True
    if slot.unanswered and slot.out_of_order:
        job.reorder = min(e.reorder, job.reorder * U64(2))
    return False


@internal
def awaits_answer(slot):
    """Whether a slot has sent something and waits for an answer."""
    return slot.unacked != 0 or (slot.upward == SENT and (slot.state == LOCAL or slot.state == OPEN))


@internal
def back_off(e, job, slot):
    """A probe is out: wait longer for each that stays without answer. What others have been told since begins anew."""
    if slot.unanswered == 0 and job.answered_at > slot.sent_at:
        slot.retries = 0
    interval = min(e.keepalive, job.rto << U64(min(slot.retries, 8)))
    slot.retries = min(slot.retries + 1, 255)
    slot.unanswered = min(slot.unanswered + 1, 255)
    slot.deadline = e.now + interval
    e.next_deadline = min(e.next_deadline, slot.deadline)


@internal
def note_wait(e, job, slot):
    """The other side has everything from here, as if it were sent now; ask again, after a time that doubles."""
    slot.out_of_order = 0
    slot.unanswered = 0
    slot.sent_at = e.now
    slot.deadline = e.now + min(e.keepalive, current_rto(e, job) << U64(min(slot.retries, 8)))
    e.next_deadline = min(e.next_deadline, slot.deadline)


@internal
def note_loss(e, job):
    """Something was lost: from now on ask soon."""
    job.lost_at = e.now
    closer = U64(2) * job.srtt if job.srtt else job.reorder
    job.reorder = max(MIN_REORDER, min(closer, job.reorder // U64(2)))


@internal
def note_proven_loss(e, job, slot, echoed):
    """What was asked for was lost. If nothing sent later had told so, others that were silent when the PROBE with the
    token `echoed` left may be lost, too."""
    note_loss(e, job)
    if not slot.out_of_order:
        suspect_silent(e, job, e.now - probe_age(e, echoed))


@internal
def suspect_silent(e, job, asked_at):
    """Ask at once for what had been sent the reorder time before a PROBE that left at `asked_at`."""
    for offset in range(job.slots):
        slot = slot_at(e, slot_index(job, job.base + offset))
        if awaits_answer(slot) and not is_loss_suspected(slot) and slot.sent_at + job.reorder <= asked_at:
            slot.out_of_order = BY_ALL
            slot.deadline = e.now
            e.next_deadline = e.now


@internal
def start_timer(e, job, slot):
    """A slot that has just sent waits for its answer."""
    slot.sent_at = e.now
    slot.deadline = e.now + current_rto(e, job)
    slot.out_of_order = 0
    slot.retries = 0
    slot.unanswered = 0
    e.next_deadline = min(e.next_deadline, slot.deadline)

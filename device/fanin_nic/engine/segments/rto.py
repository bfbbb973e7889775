"""Retransmission time-outs: when a position is probed, what the answers teach, and which members are missing.

| position | probed |
| --- | --- |
| silent | if it is the lowest, the current RTO after it was sent and after the last answer to any position |
| out of order: a later position was answered first | after the reorder time |
| probed, no answer | after the RTO, doubled with each PROBE, up to the keep-alive interval |
| probed, answer WAIT | after the current RTO, doubled likewise; counted anew when another position is answered |

Only the lowest silent position is probed, because a late rank delays all. When it proves lost, positions that have been
silent as long are probed at once.

Silence mostly means a late rank. So while no loss was proved for the detection time, the current RTO is at least the
first RTO, and up to ten times as long on a device whose timers run late, because several processes share a core there.
An earlier PROBE would only fetch a second copy of a result in flight. After a loss the current RTO is the measured one.

The reorder time is learnt. It begins long, because kernels reorder packets when a thread changes its core, and without
loss no PROBE shall be sent. A proven loss halves it, or sets it to two round trips if that is less; it doubles when a
probed position was only late. A WAIT for an out-of-order position also proves a loss: all members have sent the later
position, so a contribution to this one was lost. (Of a ONE position one member may bring the data before the others
have sent earlier positions.) Round trips are measured on PROBEs only: the token is the time in microseconds, which the
answer returns. Record 0034: why so patient, and what asking for every silent position cost.

Repairs may never succeed: a neighbour answers PROBEs, or is heard otherwise, but neither the contribution arrives there
nor the result here. Headers pass and data do not: the job ends with PATH_MTU. Only a series of PROBEs proves it. A new
series begins if a repaired position is asked for much later because a rank is late, and while the neighbour is silent,
as the path then carries nothing at all. The time for which this device stood still does not count. In a ring a next
node that has never acknowledged anything may still form its job, over another path that is the bad one; it reports that
itself.
"""

from fanin_nic.engine.jobs.config import abort_path
from fanin_nic.engine.jobs.lease import all_nodes, nodes_before
from fanin_nic.engine.jobs.leave import not_joined
from fanin_nic.engine.jobs.missing import includes_this_device
from fanin_nic.engine.records.accessors import ONE, U64, ZERO, bit_of, distance, queue_at, slot_at, slot_index
from fanin_nic.engine.records.tables import JobState, OutOfOrder, SlotState, Upward
from fanin_nic.engine.slots import contributor_class
from fanin_nic.native.compiled import internal
from fanin_nic.native.memory import lowest_bit
from fanin_wire.abi import ContributorClass, Route, Status

MICROSECOND = U64(1000)
MIN_REORDER = U64(200_000)
MIN_RTO = U64(1_000_000)
MAX_RTO = U64(1_000_000_000)
MAX_RTO_FACTOR = 10  # times the first RTO
MIN_SERIES = U64(2) * MAX_RTO  # ns: at least three PROBEs, however short the detection time


# When a position is probed


@internal
def start_timer(e, job, slot):
    slot.sent_at = e.now
    slot.deadline = e.now + current_rto(e, job)
    slot.out_of_order = 0
    slot.retries = 0
    slot.unanswered = 0
    e.next_deadline = min(e.next_deadline, slot.deadline)


@internal
def due_time(e, job, slot):
    """Time in ns at which a position is probed if its loss is suspected or it is the lowest."""
    if not is_loss_suspected(slot):
        return max(slot.deadline, job.answered_at + current_rto(e, job))
    if slot.unanswered == 0 and job.answered_at > slot.sent_at:  # the stream has gone on since the WAIT
        return min(slot.deadline, job.answered_at + job.rto)
    return U64(slot.deadline)


@internal
def current_rto(e, job):
    """Silence in ns after which a position is probed."""
    if is_lossy(e, job):
        return U64(job.rto)
    return max(U64(job.rto), U64(e.rto) + min(e.lateness << U64(3), U64(MAX_RTO_FACTOR - 1) * e.rto))


@internal
def is_loss_suspected(slot):
    """Whether a position is out of order or was probed."""
    return slot.out_of_order != 0 or slot.retries != 0


@internal
def is_lossy(e, job):
    """Whether a loss was proved within the detection time."""
    return job.lost_at != ZERO and e.now - job.lost_at < e.detection


@internal
def awaits_answer(slot):
    """Whether a slot has sent something and waits for an answer."""
    is_open = slot.state == SlotState.LOCAL or slot.state == SlotState.OPEN
    return slot.unacked != 0 or (slot.upward == Upward.SENT and is_open)


@internal
def back_off(e, job, slot):
    """A PROBE was sent: double the interval, or begin anew if another position was answered since."""
    if slot.unanswered == 0 and job.answered_at > slot.sent_at:
        slot.retries = 0
    interval = min(e.keepalive, job.rto << U64(min(slot.retries, 8)))
    slot.retries = min(slot.retries + 1, 255)
    slot.unanswered = min(slot.unanswered + 1, 255)
    slot.deadline = e.now + interval
    e.next_deadline = min(e.next_deadline, slot.deadline)


# What answers teach


@internal
def measure_rtt(e, job, echoed):
    """Update the RTO from the token in an answer (RFC 6298)."""
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
def probe_token(e):
    """Odd microseconds modulo 2^32, so never 0."""
    return ((e.now // MICROSECOND) & U64(0xFFFFFFFF)) | U64(1)


@internal
def probe_age(e, echoed):
    """Time in ns since a PROBE with this token was sent."""
    return ((probe_token(e) - U64(echoed)) & U64(0xFFFFFFFF)) * MICROSECOND


@internal
def note_answer(e, job, slot, echoed):
    """A result came, for the PROBE with the token `echoed` or unasked (0). Returns whether it was lost."""
    note_progress(e, job)
    if echoed and slot.unanswered:
        note_proven_loss(e, job, slot, echoed)
        return True
    if slot.unanswered and slot.out_of_order:
        job.reorder = min(e.reorder, job.reorder * U64(2))
    return False


@internal
def note_progress(e, job):
    """A position was answered, so the stream is not silent."""
    job.answered_at = e.now
    e.next_deadline = min(e.next_deadline, e.now + job.rto)


@internal
def note_wait(e, job, slot):
    """A WAIT came: the receiver has the position. Probe again after a time that doubles."""
    slot.out_of_order = 0
    slot.unanswered = 0
    slot.first_probe_at = ZERO
    slot.sent_at = e.now
    slot.deadline = e.now + min(e.keepalive, current_rto(e, job) << U64(min(slot.retries, 8)))
    e.next_deadline = min(e.next_deadline, slot.deadline)


@internal
def mark_out_of_order(e, job, slot):
    """A result came for `slot`: mark the earlier positions that were sent before it."""
    by = OutOfOrder.BY_ONE if contributor_class(slot.flags) == ContributorClass.ONE else OutOfOrder.BY_ALL
    for offset in range(distance(slot.position, job.base)):
        earlier = slot_at(e, slot_index(job, job.base + offset))
        if awaits_answer(earlier) and earlier.sent_at <= slot.sent_at and earlier.out_of_order < by:
            shorten_deadline(e, job, earlier, by)


@internal
def shorten_deadline(e, job, slot, by):
    """A later position was answered first (`by`: OutOfOrder): expect an answer within the reorder time."""
    slot.deadline = max(e.now, min(due_time(e, job, slot), e.now + job.reorder))
    slot.out_of_order = by
    e.next_deadline = min(e.next_deadline, slot.deadline)


@internal
def note_loss(e, job):
    """A packet was lost: probe sooner from now on."""
    job.lost_at = e.now
    closer = U64(2) * job.srtt if job.srtt else job.reorder
    job.reorder = max(MIN_REORDER, min(closer, job.reorder // U64(2)))


@internal
def note_proven_loss(e, job, slot, echoed):
    """A probed position was lost. Unless it was out of order, positions that were silent when the PROBE with the token
    `echoed` was sent may be lost, too."""
    note_loss(e, job)
    if not slot.out_of_order:
        suspect_silent(e, job, e.now - probe_age(e, echoed))


@internal
def suspect_silent(e, job, asked_at):
    """Probe at once the positions sent at least the reorder time before a PROBE of the time `asked_at`."""
    for offset in range(job.slots):
        slot = slot_at(e, slot_index(job, job.base + offset))
        if awaits_answer(slot) and not is_loss_suspected(slot) and slot.sent_at + job.reorder <= asked_at:
            slot.out_of_order = OutOfOrder.BY_ALL
            slot.deadline = e.now
            e.next_deadline = e.now


@internal
def note_timer_lag(e):
    """Late timers mean that this device waits for a core; its neighbours may, too."""
    e.lateness = max(timer_lag(e), e.lateness - (e.lateness >> U64(3)))


@internal
def timer_lag(e):
    """Time in ns by which this device's timers are late: it has stood still at least as long."""
    return e.now - e.next_deadline if e.now > e.next_deadline else ZERO


# Repairs that fail


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


# Members that are missing


@internal
def missing_for_position(e, job, position):
    """(scope, bitmap) of the members that a position waits for; one that has not begun here waits for those of the
    first open position of the job."""
    slot = slot_at(e, slot_index(job, first_begun_position(e, job, position)))
    if distance(slot.position, job.base) < 0 or slot.state == SlotState.DONE:
        return 0, U64(job.rank_mask)
    if slot.rank_missing != ZERO:
        return 0, late_ranks(e, job, slot)
    if slot.upward == Upward.SENT:
        return int(job.missing_kind), U64(job.missing)
    if job.route == Route.RING:
        return 1, missing_in_ring(e, job)
    return 0, U64(slot.node_missing)


@internal
def first_begun_position(e, job, position):
    """The given position if it is open, else the first open position of the job."""
    slot = slot_at(e, slot_index(job, position))
    if slot.position == position and slot.state != SlotState.DONE:
        return U64(position)
    for offset in range(job.slots):
        place = U64(job.base + offset) & U64(0xFFFFFFFF)
        slot = slot_at(e, slot_index(job, place))
        if slot.position != place or slot.state != SlotState.DONE:
            return place
    return U64(job.base)


@internal
def late_ranks(e, job, slot):
    """The ranks of this node that a position waits for, some of which may only wait for their turn."""
    late, ranks = U64(slot.rank_missing), U64(slot.rank_missing)
    while ranks:
        rank = lowest_bit(ranks)
        ranks &= ranks - ONE
        if job.queue[rank] and distance(queue_at(e, job.queue[rank] - 1).position, slot.position) > 0:
            late &= ~bit_of(rank)
    return late if late != ZERO else U64(slot.rank_missing)


@internal
def missing_in_ring(e, job):
    """The nodes that all positions in flight can wait for.

    A missing partial waits between its start and this node; one that was sent on waits behind this node. Positions
    start at different nodes, so a single missing node is the one that they have in common.
    """
    common = all_nodes(job) & ~bit_of(job.node_index)
    for offset in range(job.window):
        slot = slot_at(e, slot_index(job, job.base + offset))
        if slot.position != U64(job.base + offset) & U64(0xFFFFFFFF) or slot.state == SlotState.DONE:
            continue
        waited = nodes_before(job, slot.sid) if slot.node_missing != ZERO else slot.nodes & ~bit_of(job.node_index)
        if common & waited == ZERO:  # more than one node
            return common | waited
        common &= waited
    return common


@internal
def narrow_missing(e, job, status, scope, missing):
    """(scope, bitmap) of the members that a job waited for which ended at another device. Other devices can only name
    this device; for a TIMEOUT it names its own missing ranks or children."""
    if status == Status.TIMEOUT and includes_this_device(job, scope, missing):
        own_scope, own = missing_for_position(e, job, job.base) if job.state >= JobState.ACTIVE else not_joined(job)
        if own != ZERO and own_scope < scope:
            return own_scope, own
    return scope, U64(missing)

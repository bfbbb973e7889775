"""Data packets of a ring: partials and results from the previous node, acknowledgements from the next. Record 0017:
where rings are, and why ACK answers every PROBE."""

from numba import int64

from fanin_nic.engine import slots
from fanin_nic.engine.jobs.lease import ring_start
from fanin_nic.engine.output import packet, send_contribution, slot_packet
from fanin_nic.engine.records.accessors import (
    ONE,
    U64,
    ZERO,
    bit_of,
    count,
    distance,
    header_at,
    payload_of,
    proceed,
    slot_at,
    slot_index,
)
from fanin_nic.engine.records.tables import Counter, OutOfOrder, Sent, SlotState
from fanin_nic.engine.records.trace import trace
from fanin_nic.engine.segments.complete import deliver, pass_result, send_ring_result
from fanin_nic.engine.segments.contribute import claim_for_node, note_result, take_packet
from fanin_nic.engine.segments.rto import (
    abort_if_repair_fails,
    measure_rtt,
    note_progress,
    note_proven_loss,
    probe_age,
    probe_token,
    shorten_deadline,
    start_timer,
)
from fanin_nic.engine.slots import describe
from fanin_nic.native.compiled import internal
from fanin_nic.native.memory import copy, count_bits
from fanin_wire.fields import Flag, Opcode
from fanin_wire.tap import Step

ACK_POSITIONS = 64


@internal
def on_contribution(e, job, header, payload):
    """Event: a partial from the previous node, stored, or refused without acknowledgement."""
    slot = slot_at(e, slot_index(job, header.position))
    verdict = slots.verdict(job, slot, header.position)
    if verdict == slots.VIOLATION:
        count(e, Counter.DROP_SLOT)
        return
    if verdict == slots.REPLACE and ring_start(job, header.sid) == U64(job.node_index):
        count(e, Counter.DROP_UNEXPECTED)  # the position starts at this node
        return
    schedule_ack(job, header.position)
    if verdict == slots.STALE:
        count(e, Counter.DROP_STALE)
        return
    if verdict == slots.REPLACE:
        claim_for_node(e, job, slot, header.position, header.sid)
        describe(slot, header.op, header.dtype, header.flags, header.mid, header.sid)
    if slot.node_missing == ZERO:
        count(e, Counter.DROP_DUPLICATE)
        return
    accept(e, job, slot, header, payload)


@internal
def accept(e, job, slot, header, payload):
    """The partial of all nodes before this one."""
    if take_packet(e, job, slot, header, payload, count_bits(job.rank_mask)):
        slot.nodes = header.node_bitmap
        slot.wants |= U64(header.rank_bitmap)
        slot.node_missing = ZERO
        trace(e, job, slot, Step.NODE_IN, header.source)
        proceed(e, job, slot)


@internal
def on_result(e, job, header, payload):
    """Event: a result from the previous node, stored, given to the ranks and passed on."""
    slot = slot_at(e, slot_index(job, header.position))
    verdict = slots.verdict(job, slot, header.position)
    has_result = slot.state == SlotState.FINAL or slot.state == SlotState.DONE
    if verdict == slots.STALE or (verdict == slots.CURRENT and has_result):
        schedule_ack(job, header.position)
        count(e, Counter.DROP_STALE if verdict == slots.STALE else Counter.DROP_DUPLICATE)
        return
    if verdict != slots.CURRENT or slot.state != SlotState.LOCAL:
        count(e, Counter.DROP_UNEXPECTED)
        return
    if slot.flags & header.flags & Flag.HAS_DATA and header.length != slot.length:
        count(e, Counter.DROP_LENGTH)
        return
    schedule_ack(job, header.position)
    slot.unacked &= ~Sent.CONTRIBUTION  # this result contains the share of the next node, which had our partial
    slot.first_probe_at = ZERO  # from now on the result is asked for
    note_result(slot, header)
    slot.wants = U64(header.rank_bitmap)
    if header.flags & Flag.HAS_DATA:
        copy(payload_of(e, job, slot.position), payload, U64(slot.length))
    slots.set_state(e, job, slot, SlotState.FINAL)
    deliver(e, job, slot, payload_of(e, job, slot.position), slot.flags)
    pass_result(e, job, slot, U64(header.node_bitmap))


@internal
def schedule_ack(job, position):
    """Acknowledge a position at the end of the batch. The previous node is behind by at most the length of the lease,
    and ahead by less than twice that."""
    ahead = distance(position, job.base)
    if ahead < -int64(job.slots) or ahead >= 2 * int64(job.slots):
        return
    if not job.ack_pending:
        job.ack_pending = 1
        job.ack_low = position
        job.ack_high = position
    elif distance(position, job.ack_low) < 0:
        job.ack_low = position
    elif distance(position, job.ack_high) > 0:
        job.ack_high = position


@internal
def is_stored(job, slot, position, result):
    """Whether the partial (or the result) of a position is, or was, stored here."""
    ahead = distance(position, slot.position)
    if ahead:
        return ahead < 0
    if slot.state == SlotState.DONE or slot.state == SlotState.FINAL:
        return True
    return not result and slot.node_missing == ZERO


@internal
def send_ack(e, job, base, echoed):
    """ACK: bitmaps of the partials and results stored for 64 positions from `base`: the state, not what changed."""
    header = header_at(e, packet(e, job, Opcode.ACK, job.previous_address))
    header.position = base
    header.seg = U64(base) & (U64(job.slots) - ONE)
    header.source = job.node_index
    header.token = echoed
    for offset in range(ACK_POSITIONS):
        position = U64(base + offset) & U64(0xFFFFFFFF)
        slot = slot_at(e, slot_index(job, position))
        if is_stored(job, slot, position, False):
            header.node_bitmap |= bit_of(offset)
        if is_stored(job, slot, position, True):
            header.rank_bitmap |= bit_of(offset)


@internal
def acknowledge_batch(e, job):
    """Event: the end of a batch of received packets. Sends the ACKs that are due."""
    if not job.ack_pending:
        return
    job.ack_pending = 0
    base = job.ack_low
    while distance(job.ack_high, base) >= 0:
        send_ack(e, job, base, 0)
        base += ACK_POSITIONS


@internal
def on_probe(e, job, header):
    """Event: PROBE of the previous node; an ACK answers it."""
    send_ack(e, job, header.position, header.token)


@internal
def probe_next(e, job, slot):
    """PROBE for a slot to the next node, unless all before were in vain."""
    if abort_if_repair_fails(e, job, slot, True):
        return
    header = header_at(e, slot_packet(e, job, slot, Opcode.PROBE, job.next_address))
    header.source = job.node_index
    header.token = probe_token(e)


@internal
def on_ack(e, job, header):
    job.next_has_answered = 1
    measure_rtt(e, job, header.token)
    newest, last = ZERO, U64(header.position)
    for offset in range(ACK_POSITIONS):
        slot = slot_at(e, slot_index(job, header.position + offset))
        if slot.position != U64(header.position + offset) & U64(0xFFFFFFFF) or not slot.unacked:
            continue
        acknowledged = acknowledged_of(header, offset) & slot.unacked
        if acknowledged:
            if slot.sent_at >= newest:
                newest, last = U64(slot.sent_at), U64(slot.position)
            slot.unacked &= ~acknowledged
            if slot.unanswered and slot.out_of_order and not header.token:  # only late
                job.reorder = min(e.reorder, job.reorder * U64(2))
            slot.retries = 0
            slot.unanswered = 0
            slot.first_probe_at = ZERO
            finish_if_acknowledged(e, job, slot)
    if newest:
        note_progress(e, job)
        mark_earlier_out_of_order(e, job, newest, last)
    if header.token:
        resend_missing(e, job, header)


@internal
def acknowledged_of(header, offset):
    """The sends (flags of Sent) that an ACK confirms for the position `offset` after its base."""
    flags = 0
    if header.node_bitmap & bit_of(offset) != ZERO:
        flags |= Sent.CONTRIBUTION
    if header.rank_bitmap & bit_of(offset) != ZERO:
        flags |= Sent.RESULT
    return flags


@internal
def finish_if_acknowledged(e, job, slot):
    if slot.state == SlotState.FINAL and not slot.unacked:
        slots.set_state(e, job, slot, SlotState.DONE)


@internal
def mark_earlier_out_of_order(e, job, newest, last):
    """Mark the unacknowledged positions sent before `last`, which was sent at `newest` and is acknowledged. The map of
    the ACK need not reach them: that of a batch that lacks a position begins behind it."""
    for offset in range(job.slots):
        slot = slot_at(e, slot_index(job, job.base + offset))
        if not slot.unacked or slot.out_of_order:
            continue
        if slot.sent_at < newest or (slot.sent_at == newest and distance(slot.position, last) < 0):
            shorten_deadline(e, job, slot, OutOfOrder.BY_ALL)


@internal
def resend_missing(e, job, header):
    """The next node has answered a PROBE: send again the probed positions that it lacks."""
    asked_at = e.now - probe_age(e, header.token)
    for offset in range(ACK_POSITIONS):
        slot = slot_at(e, slot_index(job, header.position + offset))
        same = slot.position == U64(header.position + offset) & U64(0xFFFFFFFF)
        if same and slot.unacked and slot.unanswered and slot.sent_at <= asked_at:
            if e.action_count + 2 > e.actions:  # no room: it will be probed again
                return
            resend(e, job, slot, header.token)


@internal
def resend(e, job, slot, echoed):
    """Send again what the answer to the PROBE with the token `echoed` lacks."""
    count(e, Counter.RESENT)
    note_proven_loss(e, job, slot, echoed)
    start_timer(e, job, slot)
    if slot.unacked & Sent.CONTRIBUTION:
        send_contribution(e, job, slot)
    if slot.unacked & Sent.RESULT:
        send_ring_result(e, job, slot)

"""Data packets of a tree: contributions from below, results from above, and data ahead of a result (SPEC.md, 7.5)."""

from fanin_nic.engine import slots
from fanin_nic.engine.jobs.missing import scope_above, scope_for_below, scope_from_number_above
from fanin_nic.engine.output import (
    attach_payload,
    body_at,
    note_group,
    note_group_loss,
    note_result_path,
    reply,
    send_contribution,
    slot_packet,
    wants_data,
)
from fanin_nic.engine.packets import header_prediction
from fanin_nic.engine.records.accessors import (
    ONE,
    U64,
    ZERO,
    abort,
    bit_of,
    child_at,
    child_index,
    count,
    distance,
    header_at,
    payload_of,
    proceed,
    slot_at,
    slot_index,
)
from fanin_nic.engine.records.tables import Ahead, Counter, JobState, OutOfOrder, SlotState, Upward
from fanin_nic.engine.records.trace import trace
from fanin_nic.engine.segments.complete import (
    MAX_AHEAD_BYTES,
    deliver,
    deliver_ahead,
    distribute,
    goes_ahead_now,
    send_ahead,
    unicast_result,
)
from fanin_nic.engine.segments.contribute import claim_for_node, note_result, take_packet
from fanin_nic.engine.segments.rto import (
    abort_if_repair_fails,
    is_lossy,
    mark_out_of_order,
    measure_rtt,
    note_answer,
    note_loss,
    note_progress,
    note_proven_loss,
    note_wait,
    probe_token,
    shorten_deadline,
    start_timer,
    timer_lag,
)
from fanin_nic.engine.slots import contributor_class, copy_referenced_data, describe, matches, order_of_node
from fanin_nic.native.compiled import internal
from fanin_nic.native.memory import copy, load_be32, load_u8, lowest_bit, store_be16, store_be32, store_u8
from fanin_wire.abi import ContributorClass, Route, Status
from fanin_wire.fields import WAIT_BODY, Flag, Opcode
from fanin_wire.tap import Step

NO_QUEUE = -1  # no queue of this device has brought the data
OLDEST_AGE, OLDEST_CHILD = U64(WAIT_BODY.byte_offset("oldest_age_us")), U64(WAIT_BODY.byte_offset("oldest_child"))
WAIT_KIND = U64(WAIT_BODY.byte_offset("kind"))
WAIT_SIZE = WAIT_BODY.size
CROSSING = U64(2)  # a quarter of the first reorder time


# Contributions


@internal
def on_contribution(e, job, header, payload, source):
    slot = slot_at(e, slot_index(job, header.position))
    verdict = slots.verdict(job, slot, header.position)
    if verdict == slots.STALE:
        count(e, Counter.DROP_STALE)
    elif verdict == slots.VIOLATION:
        count(e, Counter.DROP_SLOT)
    elif verdict == slots.CURRENT and slot.node_missing & bit_of(header.source) == ZERO:
        count(e, Counter.DROP_DUPLICATE)
        answer_repeated(e, job, slot, header, source)
    else:
        if verdict == slots.REPLACE:
            slots.claim(e, job, slot, header.position)
            slot.node_missing = job.node_mask
            describe(slot, header.op, header.dtype, header.flags, header.mid, header.sid)
        accept(e, job, slot, header, payload)


@internal
def accept(e, job, slot, header, payload):
    """Take the first contribution of a child: check it, compute it, clear the child's bit."""
    if take_packet(e, job, slot, header, payload, order_of_node(job, header.source)):
        header_prediction.store_prediction(e, job, slot, header, payload)
        if header.flags & Flag.WANTS_RESULT:
            slot.wants |= bit_of(header.source)
        note_group(job, slot, header.flags, header.source)
        trace(e, job, slot, Step.NODE_IN, header.source)
        slot.node_missing &= ~bit_of(header.source)
        proceed(e, job, slot)


@internal
def answer_repeated(e, job, slot, header, source):
    """A child sends again, or probes, a position that it has contributed to: it gets the result, if any. A middle
    device probes its own parent, once for all children, on behalf of the lowest."""
    if slot.state == SlotState.FINAL:
        header_at(e, unicast_result(e, job, slot, U64(header.source), U64(slot.wants))).token = header.token
    elif slot.state == SlotState.LOCAL and lowest_bit(job.node_mask) == U64(header.source):
        probe_above(e, job, slot)


# Questions of a device below


@internal
def on_probe(e, job, header, source):
    """Event: PROBE from a device below, always answered unless it is stale."""
    slot = slot_at(e, slot_index(job, header.position))
    verdict = slots.verdict(job, slot, header.position)
    if verdict == slots.STALE:
        count(e, Counter.DROP_STALE)
    elif verdict == slots.VIOLATION:
        count(e, Counter.DROP_SLOT)
    elif verdict == slots.REPLACE or slot.node_missing & bit_of(header.source) != ZERO:
        note_loss(e, job)
        reply(e, job, header, Opcode.NEED, source)
    elif crosses_result(e, job, slot):
        send_wait(e, job, slot, header, source)
    else:
        answer_repeated(e, job, slot, header, source)
        if slot.state == SlotState.FINAL:
            note_loss(e, job)
        else:
            send_wait(e, job, slot, header, source)


@internal
def crosses_result(e, job, slot):
    """Whether the result that a PROBE asks for was sent just now, in a job without loss. A second copy would be payload
    on suspicion; the next PROBE fetches a lost one. Data that went ahead were not sent just now."""
    return (
        not slot.ahead & Ahead.SENT
        and slot.state == SlotState.FINAL
        and e.now - slot.sent_at < e.reorder >> CROSSING
        and not is_lossy(e, job)
    )


@internal
def send_wait(e, job, slot, header, source):
    """WAIT: others are missing. It names the child among them that was silent longest, and for how long."""
    index = reply(e, job, header, Opcode.WAIT, source)
    scope, missing = 0, U64(slot.node_missing)
    if missing == ZERO and slot.state != SlotState.FINAL:  # the device above waits for members, no child is missing
        scope, missing = int(job.missing_kind), U64(job.missing)
    header_at(e, index).node_bitmap = missing
    oldest = most_silent(e, job, slot.node_missing)
    body = body_at(e, index)
    age = silent_for(e, job, oldest) if slot.node_missing != ZERO else ZERO
    store_be32(body + OLDEST_AGE, age // U64(1000))
    store_u8(body + OLDEST_CHILD, oldest)
    store_u8(body + WAIT_KIND, scope_for_below(scope))
    store_be16(body + WAIT_KIND + 1, 0)
    attach_payload(e, index, body, WAIT_SIZE)


@internal
def most_silent(e, job, missing):
    """The missing child that was heard least recently; 0 if none is missing."""
    oldest = lowest_bit(missing) & U64(63)
    while missing:
        bit = lowest_bit(missing)
        missing &= missing - ONE
        if silent_for(e, job, bit) > silent_for(e, job, oldest):
            oldest = bit
    return oldest


@internal
def silent_for(e, job, bit):
    """Time in ns since a child was heard, less the time for which this device stood still."""
    since = e.now - child_at(e, child_index(job, bit)).heard
    return since - min(since, timer_lag(e))


# Results and answers of the device above


@internal
def on_result(e, job, header, payload):
    """Event: RESULT from the device above, taken only for a position that waits for it."""
    slot = slot_at(e, slot_index(job, header.position))
    if not awaits_result(slot, header.position):
        count(e, Counter.DROP_UNEXPECTED)
        return
    if slot.flags & header.flags & Flag.HAS_DATA and header.length != slot.length:
        count(e, Counter.DROP_LENGTH)
        return
    measure_rtt(e, job, header.token)
    if lacks_data(job, slot, header):
        ask_for_data(e, job, slot, header)
        return
    was_lost = note_answer(e, job, slot, header.token)
    if not header.token:
        note_result_path(job, header)
    elif was_lost or e.is_switch:  # a switch probes only results that a child misses
        note_group_loss(job)
    mark_out_of_order(e, job, slot)
    job.missing = ZERO  # not known yet for later positions
    note_result(slot, header)
    if slot.state == SlotState.OPEN:  # its data went up before the headers of all children were here
        slot.upward = Upward.ANSWERED
    elif job.node_mask == ZERO and header.flags & Flag.HAS_DATA:  # a NIC: straight into the memory of the ranks
        trace(e, job, slot, Step.RESULT, 0)
        deliver(e, job, slot, payload, slot.flags)
        slots.set_state(e, job, slot, SlotState.DONE)
    else:
        if header.flags & Flag.HAS_DATA:
            copy(payload_of(e, job, slot.position), payload, U64(slot.length))
        distribute(e, job, slot)


@internal
def awaits_result(slot, position):
    """Whether a slot has sent its partial of a position up and has no answer."""
    if slot.position != position or slot.upward != Upward.SENT:
        return False
    return slot.state == SlotState.LOCAL or slot.state == SlotState.OPEN


@internal
def lacks_data(job, slot, header):
    """Whether a RESULT lacks data that went ahead of it, are wanted here, and have not come."""
    if header.flags & Flag.HAS_DATA or header.status or contributor_class(slot.flags) != ContributorClass.ONE:
        return False
    return wants_data(job, slot)


@internal
def ask_for_data(e, job, slot, header):
    """The data that went ahead of a RESULT are lost or late. A switch, which keeps no time, asks at once."""
    slot.lacks_data = 1
    note_result(slot, header)
    note_progress(e, job)
    job.missing = ZERO  # a WAIT from before the result may have named some
    if header.token:  # the device above knows that this one does not want them
        return
    note_result_path(job, header)
    mark_out_of_order(e, job, slot)
    if e.is_switch:
        probe_above(e, job, slot)
    else:
        shorten_deadline(e, job, slot, OutOfOrder.BY_ONE)


@internal
def probe_above(e, job, slot):
    """PROBE for a slot to the device above, unless all before were in vain."""
    if abort_if_repair_fails(e, job, slot, False):
        return
    header = header_at(e, slot_packet(e, job, slot, Opcode.PROBE, job.parent_address))
    header.source = job.parent_bit
    header.token = probe_token(e)


@internal
def on_need(e, job, header):
    """Event: NEED. The device above lacks this device's contribution."""
    slot = slot_at(e, slot_index(job, header.position))
    if not awaits_result(slot, header.position):
        count(e, Counter.DROP_UNEXPECTED)
        return
    measure_rtt(e, job, header.token)
    count(e, Counter.RESENT)
    note_proven_loss(e, job, slot, header.token)
    start_timer(e, job, slot)
    copy_referenced_data(e, job, slot)
    send_contribution(e, job, slot)


@internal
def on_wait(e, job, header, body):
    """Event: WAIT. The device above has the contribution and waits for others."""
    slot = slot_at(e, slot_index(job, header.position))
    if not awaits_result(slot, header.position):
        count(e, Counter.DROP_UNEXPECTED)
        return
    measure_rtt(e, job, header.token)
    job.missing = header.node_bitmap
    job.missing_kind = scope_from_number_above(job, load_u8(body + WAIT_KIND))
    if U64(load_be32(body + OLDEST_AGE)) * U64(1000) > e.detection:
        abort(e, job, Status.PEER_LOST, scope_above(job), bit_of(load_u8(body + OLDEST_CHILD) & 63))
        return
    if slot.out_of_order == OutOfOrder.BY_ALL and header.node_bitmap != ZERO:  # all have sent a later position
        note_loss(e, job)
    note_wait(e, job, slot)


# Data ahead of the result


@internal
def on_result_ahead(e, job, header, payload):
    """Event: RESULT with AHEAD. Its data are taken if their slot is free for them; it acknowledges nothing."""
    slot = slot_at(e, slot_index(job, header.position))
    verdict = slots.verdict(job, slot, header.position)
    if job.state != JobState.ACTIVE or not is_whole_message(header):
        count(e, Counter.DROP_UNEXPECTED)
    elif verdict == slots.STALE:
        count(e, Counter.DROP_STALE)
    elif verdict == slots.VIOLATION or not is_in_reach(e, job, slot, header.position):
        count(e, Counter.DROP_SLOT)
    elif verdict == slots.REPLACE:
        claim_ahead(e, job, slot, header)
        take_ahead(e, job, slot, header, payload)
    elif slot.state == SlotState.FINAL or slot.state == SlotState.DONE or slot.flags & Flag.HAS_DATA:
        count(e, Counter.DROP_DUPLICATE)
    elif matches(slot, header.op, header.dtype, header.flags, header.mid, header.sid):
        take_ahead(e, job, slot, header, payload)
    else:  # the device above ends the job when this device's contribution comes
        count(e, Counter.DROP_UNEXPECTED)


@internal
def is_whole_message(header):
    """Whether a packet brings a short message of one rank."""
    if header.flags & Flag.HAS_DATA == 0 or header.status or header.length == 0 or U64(header.length) > MAX_AHEAD_BYTES:
        return False
    return contributor_class(header.flags) == ContributorClass.ONE and header.sid == 0


@internal
def is_in_reach(e, job, slot, position):
    """Whether the content of a position's slot is no longer needed. At a NIC: its position lies before the base of the
    job. (The base of a switch does not move; it has no ranks to write to.)"""
    if job.rank_mask != ZERO:
        return distance(position, job.base) < job.slots
    return slot.position == position or slot.state == SlotState.DONE or is_held_below(e, job, slot.position)


@internal
def is_held_below(e, job, position):
    """Whether all devices below hold the result of a position: they have contributed to the one a window later. (This
    device may have contributed to that one first.)"""
    later = (U64(position) + U64(job.window)) & U64(0xFFFFFFFF)
    slot = slot_at(e, slot_index(job, later))
    ahead = distance(slot.position, later)
    return ahead > 0 or (ahead == 0 and slot.state != SlotState.OPEN)


@internal
def claim_ahead(e, job, slot, header):
    """Claim a slot for data that come before any contribution."""
    claim_for_node(e, job, slot, header.position, header.sid)
    if job.route != Route.RING:
        slot.node_missing = job.node_mask
    describe(slot, header.op, header.dtype, header.flags, header.mid, header.sid)


@internal
def take_ahead(e, job, slot, header, payload):
    """Store the data, and give them to ranks and devices below. If the result came first, the position is complete."""
    copy(payload_of(e, job, slot.position), payload, U64(header.length))
    slot.length = header.length
    slot.flags |= Flag.HAS_DATA | Flag.AHEAD
    slot.ahead |= Ahead.RECEIVED
    if slot.lacks_data:
        note_answer(e, job, slot, 0)
        distribute(e, job, slot)
        return
    if slot.status == 0 and job.rank_mask != ZERO and not deliver_ahead(e, job, slot, NO_QUEUE, True):
        return
    if slot.state == SlotState.OPEN:
        proceed(e, job, slot)
    elif goes_ahead_now(job, slot):
        send_ahead(e, job, slot)

"""Data from the device above that come ahead of their result (SPEC.md, 7.5)."""

from fanin_nic.engine.records.accessors import U64, ZERO, count, distance, payload_of, slot_at, slot_index
from fanin_nic.engine.records.function_table import proceed
from fanin_nic.engine.records.tables import Ahead, Counter, JobState, SlotState
from fanin_nic.engine.segments.complete import distribute
from fanin_nic.engine.segments.data_ahead import MAX_AHEAD, goes_ahead_now, send_ahead
from fanin_nic.engine.segments.delivery import deliver_ahead
from fanin_nic.engine.segments.local_contribution import claim_for_node
from fanin_nic.engine.segments.rto import note_answer
from fanin_nic.engine.slots import slot_rule
from fanin_nic.engine.slots.contribution import contributor_class, describe, matches
from fanin_nic.native.compiled import internal
from fanin_nic.native.memory import copy
from fanin_wire.abi import ContributorClass, Route
from fanin_wire.fields import Flag

NO_QUEUE = -1  # no queue of this device has brought the data


@internal
def on_result_ahead(e, job, header, payload):
    """Event: RESULT with AHEAD. Its data are taken if their slot is free for them; it acknowledges nothing."""
    slot = slot_at(e, slot_index(job, header.position))
    verdict = slot_rule.verdict(job, slot, header.position)
    if job.state != JobState.ACTIVE or not is_whole_message(header):
        count(e, Counter.DROP_UNEXPECTED)
    elif verdict == slot_rule.STALE:
        count(e, Counter.DROP_STALE)
    elif verdict == slot_rule.VIOLATION or not is_in_reach(e, job, slot, header.position):
        count(e, Counter.DROP_SLOT)
    elif verdict == slot_rule.REPLACE:
        claim_for_data(e, job, slot, header)
        take(e, job, slot, header, payload)
    elif slot.state == SlotState.FINAL or slot.state == SlotState.DONE or slot.flags & Flag.HAS_DATA:
        count(e, Counter.DROP_DUPLICATE)
    elif matches(slot, header.op, header.dtype, header.flags, header.mid, header.sid):
        take(e, job, slot, header, payload)
    else:  # the device above ends the job when this device's contribution comes
        count(e, Counter.DROP_UNEXPECTED)


@internal
def is_whole_message(header):
    """Whether a packet brings a short message of one rank."""
    if header.flags & Flag.HAS_DATA == 0 or header.status or header.length == 0 or U64(header.length) > MAX_AHEAD:
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
def claim_for_data(e, job, slot, header):
    """Claim a slot for data that come before any contribution."""
    claim_for_node(e, job, slot, header.position, header.sid)
    if job.route != Route.RING:
        slot.node_missing = job.node_mask
    describe(slot, header.op, header.dtype, header.flags, header.mid, header.sid)


@internal
def take(e, job, slot, header, payload):
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

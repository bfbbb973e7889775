"""A complete segment: it goes up, goes round the ring, or is the result (steps S406 and S407)."""

from fanin_nic.engine.jobs.leave import abort_departed
from fanin_nic.engine.jobs.ring_order import all_nodes
from fanin_nic.engine.output.encapsulate import copy_result, send_contribution, send_result
from fanin_nic.engine.output.multicast import goes_to_group
from fanin_nic.engine.records.accessors import ONE, U64, ZERO, bit_of, child_at, child_index, header_at, payload_of
from fanin_nic.engine.records.function_table import abort
from fanin_nic.engine.records.tables import Ahead, Sent, SlotState, Upward
from fanin_nic.engine.records.trace import COMPLETE, trace
from fanin_nic.engine.segments.data_ahead import goes_ahead_now, send_ahead
from fanin_nic.engine.segments.delivery import deliver
from fanin_nic.engine.segments.rto import start_timer
from fanin_nic.engine.slots import slot_rule
from fanin_nic.engine.slots.arithmetic import convert_partial, finish_result
from fanin_nic.engine.slots.contribution import contributor_class, fold_rest, is_one_with_data
from fanin_nic.engine.slots.slot_rule import waits_for_departed
from fanin_nic.engine.slots.zero_copy import data_address
from fanin_nic.native.compiled import internal
from fanin_nic.native.memory import lowest_bit
from fanin_wire.abi import ContributorClass, JobFlag, Route, Status
from fanin_wire.fields import Flag

FIXED_START = int(JobFlag.FIXED_START | JobFlag.REPRODUCIBLE_SHAPE)


@internal
def complete(e, job, slot):
    """Both completion bitmaps of a slot are empty."""
    trace(e, job, slot, COMPLETE, 0)
    if not slot.status:
        fold_rest(e, job, slot)
    if job.route == Route.RING and slot.nodes & ~bit_of(job.node_index) != ZERO:
        note_wants(job, slot)
        forward(e, job, slot)
        slot.unacked |= Sent.CONTRIBUTION
    elif not job.has_parent:
        complete_at_root(e, job, slot)
    elif slot.upward == Upward.ANSWERED:
        distribute(e, job, slot)
    elif slot.upward == Upward.SENT:
        slot_rule.set_state(e, job, slot, SlotState.LOCAL)
    else:
        send_up(e, job, slot)


@internal
def note_wants(job, slot):
    """Ring: this node wants the result, unless it holds it already."""
    if slot.flags & Flag.WANTS_RESULT and not is_one_with_data(slot):
        slot.wants |= bit_of(job.node_index)


@internal
def send_up(e, job, slot):
    """The partial goes to the device above. Data that need not wait for the result go down as well."""
    forward(e, job, slot)
    slot.upward = Upward.SENT
    if goes_ahead_now(job, slot):
        send_ahead(e, job, slot)


@internal
def send_up_ahead(e, job, slot):
    """Send the data of a ONE position up without waiting for the headers of the other children."""
    start_timer(e, job, slot)
    send_contribution(e, job, slot)
    slot.upward = Upward.SENT


@internal
def may_go_up(slot):
    """Whether a slot's data have neither gone up nor come from above."""
    return slot.upward == Upward.NOTHING and not slot.ahead & Ahead.RECEIVED


@internal
def forward(e, job, slot):
    """Send the partial to the device above or the next node, and keep it until the result comes."""
    slot_rule.set_state(e, job, slot, SlotState.LOCAL)
    if contributor_class(slot.flags) == ContributorClass.ALL and slot.flags & Flag.HAS_DATA and not slot.status:
        convert_partial(e, job, slot, payload_of(e, job, slot.position))
    start_timer(e, job, slot)
    send_contribution(e, job, slot)


@internal
def complete_at_root(e, job, slot):
    """This device is the last to add: round once, then distribute the result."""
    contributors = contributor_class(slot.flags)
    if slot.status == 0 and contributors == ContributorClass.ALL and slot.flags & Flag.HAS_DATA:
        finish_result(e, slot, payload_of(e, job, slot.position), slot.contributions > ONE)
    elif slot.status == 0 and contributors != ContributorClass.NONE and not slot.flags & Flag.HAS_DATA:
        abort(e, job, Status.OP_MISMATCH, 0, job.rank_mask)  # each rank takes another rank for the contributor
        return
    distribute(e, job, slot)


@internal
def distribute(e, job, slot):
    """The slot holds the result: give it to the ranks here and the devices below, or pass it round the ring."""
    slot_rule.set_state(e, job, slot, SlotState.FINAL)
    if job.rank_mask != ZERO:
        deliver(e, job, slot, data_address(e, job, slot), slot.flags)
    if job.route == Route.RING:
        pass_result(e, job, slot, all_nodes(job))
    elif job.node_mask:
        fan_out(e, job, slot)
    else:
        slot_rule.set_state(e, job, slot, SlotState.DONE)


@internal
def fan_out(e, job, slot):
    """One RESULT to each device below, or one to the group; only a header to a child that does not want the data, or to
    all if the data went ahead."""
    below = job.node_mask
    wants = ZERO if slot.ahead & Ahead.SENT else U64(slot.wants)
    job.sent_below = e.now
    slot.sent_at = e.now
    if goes_to_group(e, job, slot):
        send_result(e, job, slot, e.group, lowest_bit(below), below, wants)
        return
    first = lowest_bit(below)
    index = unicast_result(e, job, slot, first, wants)
    has_data = wants & bit_of(first) != ZERO
    below &= below - ONE
    while below:
        bit = lowest_bit(below)
        below &= below - ONE
        if (wants & bit_of(bit) != ZERO) == has_data:
            copy_result(e, job, index, child_at(e, child_index(job, bit)).address, bit, bit_of(bit))
        else:
            unicast_result(e, job, slot, bit, wants)


@internal
def unicast_result(e, job, slot, bit, wants):
    """The result to a device below, with data if it is in `wants`; returns the number of the SEND."""
    child = child_at(e, child_index(job, bit))
    return send_result(e, job, slot, child.address, bit, bit_of(bit), wants & bit_of(bit))


@internal
def pass_result(e, job, slot, nodes):
    """Ring: the result to the next node, unless all have it. nodes: those without it, including this one."""
    slot.nodes = nodes & ~bit_of(job.node_index)
    if slot.nodes:
        slot.unacked |= Sent.RESULT
        start_timer(e, job, slot)
        send_ring_result(e, job, slot)
    elif not slot.unacked:
        slot_rule.set_state(e, job, slot, SlotState.DONE)


@internal
def send_ring_result(e, job, slot):
    """The result to the next node, with data if a node that lacks it wants them."""
    wanted = slot.wants & slot.nodes
    index = send_result(e, job, slot, job.next_address, job.node_index, slot.nodes, wanted)
    header_at(e, index).rank_bitmap = wanted


@internal
def advance_segment(e, job, slot):
    """A bit of a slot was cleared: complete the slot if it was the last, abort if a missing member has left."""
    if waits_for_departed(job, slot):
        abort_departed(e, job, slot)
    elif slot.rank_missing == ZERO and slot.node_missing == ZERO:
        complete(e, job, slot)
    else:
        if is_one_with_data(slot) and job.has_parent and job.route != Route.RING and may_go_up(slot):
            send_up_ahead(e, job, slot)
        if goes_ahead_now(job, slot):
            send_ahead(e, job, slot)

"""A segment whose bits are all in: it goes up, goes round, or is the result (steps S406 and S407)."""

from __future__ import annotations

from fanin_nic.engine.control.abort import abort
from fanin_nic.engine.packet.encapsulate import send_alike, send_contribution, send_result
from fanin_nic.engine.packet.multicast import goes_to_group
from fanin_nic.engine.recovery.timers import patience
from fanin_nic.engine.segment import slots
from fanin_nic.engine.segment.arithmetic import settle_partial, settle_result
from fanin_nic.engine.segment.contribute import HAS_DATA, WANTS_RESULT, contributor_class, has_all_it_needs
from fanin_nic.engine.segment.lent import data_of
from fanin_nic.engine.state import ONE, U64, ZERO, bit_of, child_at, child_index, header_at, payload_of
from fanin_nic.engine.tables import Sent, Upward
from fanin_nic.engine.transfer.write import deliver
from fanin_nic.native.compiled import internal
from fanin_nic.native.memory import lowest_bit
from fanin_wire.abi import ContributorClass, JobFlag, Route, Status

DONE, LOCAL, FINAL = slots.DONE, slots.LOCAL, slots.FINAL
SENT_CONTRIBUTION, SENT_RESULT = int(Sent.CONTRIBUTION), int(Sent.RESULT)
SENT, ANSWERED = int(Upward.SENT), int(Upward.ANSWERED)
RING = int(Route.RING)
CLASS_NONE, CLASS_ALL = int(ContributorClass.NONE), int(ContributorClass.ALL)
OP_MISMATCH = int(Status.OP_MISMATCH)
FIXED_START = int(JobFlag.FIXED_START | JobFlag.REPRODUCIBLE_SHAPE)


@internal
def all_nodes(job):
    """Bitmap of the nodes of a job (at most 64 form a ring)."""
    return ~ZERO >> (U64(64) - U64(job.node_count))


@internal
def ring_start(job, sid):
    """Node at which a segment of the ring starts; it completes at the node before."""
    if job.flags & FIXED_START:
        return ZERO
    return (U64(sid) + ONE) % U64(job.node_count)


@internal
def complete(e, job, slot):
    """Both completion bitmaps of a slot are empty."""
    if slot.early != ZERO and not slot.status:  # somebody whose turn was before theirs has brought nothing
        abort(e, job, OP_MISMATCH, 0, job.rank_mask)
    elif job.route == RING and slot.nodes & ~bit_of(job.node_index) != ZERO:
        note_wants(job, slot)
        forward(e, job, slot)
        slot.unacked |= SENT_CONTRIBUTION
    elif not job.has_parent:
        finish(e, job, slot)
    elif slot.upward == ANSWERED:
        distribute(e, job, slot)
    elif slot.upward == SENT:
        slots.occupy(e, job, slot, LOCAL)
    else:
        send_up(e, job, slot)


@internal
def note_wants(job, slot):
    """Ring: this node is one of those that want the result, unless what it holds is the result."""
    if slot.flags & WANTS_RESULT and not has_all_it_needs(slot):
        slot.wants |= bit_of(job.node_index)


@internal
def send_up(e, job, slot):
    """The partial goes to the device above."""
    forward(e, job, slot)
    slot.upward = SENT


@internal
def send_early(e, job, slot):
    """The data of a ONE position go up at once, without waiting for the others' headers."""
    start_timer(e, job, slot)
    send_contribution(e, job, slot)
    slot.upward = SENT


@internal
def forward(e, job, slot):
    """The partial goes to the device above or to the next node, and is kept until the result is here."""
    slots.occupy(e, job, slot, LOCAL)
    if contributor_class(slot.flags) == CLASS_ALL and slot.flags & HAS_DATA and not slot.status:
        settle_partial(e, job, slot, payload_of(e, job, slot.position))
    start_timer(e, job, slot)
    send_contribution(e, job, slot)


@internal
def start_timer(e, job, slot):
    """A slot that has just sent waits for its answer."""
    slot.sent_at = e.now
    slot.deadline = e.now + patience(e, job)
    slot.overtaken = 0
    slot.retries = 0
    slot.unanswered = 0
    e.next_deadline = min(e.next_deadline, slot.deadline)


@internal
def finish(e, job, slot):
    """This device is the last to add: round once, then give the result to all."""
    kind = contributor_class(slot.flags)
    if slot.status == 0 and kind == CLASS_ALL and slot.flags & HAS_DATA:
        settle_result(e, slot, payload_of(e, job, slot.position), slot.contributions > ONE)
    elif slot.status == 0 and kind != CLASS_NONE and not slot.flags & HAS_DATA:
        abort(e, job, OP_MISMATCH, 0, job.rank_mask)  # each rank takes another one for the contributor
        return
    distribute(e, job, slot)


@internal
def distribute(e, job, slot):
    """The slot holds the result: to the ranks here, to the devices below, or round the ring."""
    slots.occupy(e, job, slot, FINAL)
    if job.rank_mask != ZERO:
        deliver(e, job, slot, data_of(e, job, slot), slot.flags)
    if job.route == RING:
        pass_result(e, job, slot, all_nodes(job))
    elif job.node_mask:
        fan_out(e, job, slot)
    else:
        slots.occupy(e, job, slot, DONE)


@internal
def fan_out(e, job, slot):
    """One RESULT to each device below, or one to all; who does not want the data gets a header as acknowledgement."""
    below = job.node_mask
    job.said_below = e.now
    slot.sent_at = e.now
    if goes_to_group(e, job, slot):
        send_result(e, job, slot, e.group, lowest_bit(below), below, slot.wants)
        return
    first = lowest_bit(below)
    index = unicast_result(e, job, slot, first)
    has_data = slot.wants & bit_of(first) != ZERO
    below &= below - ONE
    while below:
        bit = lowest_bit(below)
        below &= below - ONE
        if (slot.wants & bit_of(bit) != ZERO) == has_data:
            send_alike(e, job, index, child_at(e, child_index(job, bit)).address, bit, bit_of(bit))
        else:
            unicast_result(e, job, slot, bit)


@internal
def unicast_result(e, job, slot, bit):
    """The result to one device below; number of the SEND."""
    child = child_at(e, child_index(job, bit))
    return send_result(e, job, slot, child.address, bit, bit_of(bit), slot.wants & bit_of(bit))


@internal
def pass_result(e, job, slot, nodes):
    """Ring: the result to the next node, unless all have it. `nodes`: those that had not taken it before this one."""
    slot.nodes = nodes & ~bit_of(job.node_index)
    if slot.nodes:
        slot.unacked |= SENT_RESULT
        start_timer(e, job, slot)
        send_ring_result(e, job, slot)
    elif not slot.unacked:
        slots.occupy(e, job, slot, DONE)


@internal
def send_ring_result(e, job, slot):
    """The result to the next node, with data as long as a node behind it wants them."""
    wanted = slot.wants & slot.nodes
    index = send_result(e, job, slot, job.next_address, job.node_index, slot.nodes, wanted)
    header_at(e, index).rank_bitmap = wanted

"""A segment whose bits are all in: it goes up, goes round, or is the result (steps S406 and S407)."""

from __future__ import annotations

from fanin_nic.engine.packet.encapsulate import send_contribution, send_result
from fanin_nic.engine.segment import slots
from fanin_nic.engine.segment.contribute import HAS_DATA, contributor_class, itemsize, kernel_address
from fanin_nic.engine.segment.kernels import FINISH
from fanin_nic.engine.state import (
    ONE,
    SLOT,
    U64,
    ZERO,
    Sent,
    bit_of,
    child_at,
    child_index,
)
from fanin_nic.engine.transfer.write import deliver
from fanin_nic.native.compiled import compiled
from fanin_nic.native.memory import address_of, call_kernel, lowest_bit
from fanin_wire.abi import ContributorClass, Op, Route

DONE, LOCAL, FINAL = slots.DONE, slots.LOCAL, slots.FINAL
SENT_CONTRIBUTION, SENT_RESULT = int(Sent.CONTRIBUTION), int(Sent.RESULT)
RING = int(Route.RING)
MEAN = int(Op.MEAN)
CLASS_ALL = int(ContributorClass.ALL)
CONTRIBUTIONS_OFFSET = U64(SLOT.fields["contributions"][1])  # type: ignore[index]


@compiled
def complete(e, job, slot):
    """Both completion bitmaps of a slot are empty."""
    if job.route == RING:
        if slot.nodes & ~bit_of(job.node_index) == ZERO:
            finish(e, job, slot)
        else:
            forward(e, job, slot)
            slot.unacked |= SENT_CONTRIBUTION
    elif job.has_parent:
        forward(e, job, slot)
    else:
        finish(e, job, slot)


@compiled
def forward(e, job, slot):
    """The partial goes to the device above or to the next node, and is kept until the result is here."""
    slots.occupy(e, job, slot, LOCAL)
    start_timer(e, job, slot)
    send_contribution(e, job, slot)


@compiled
def start_timer(e, job, slot):
    """A slot that has just sent waits one retransmission time-out."""
    slot.sent_at = e.now
    slot.deadline = e.now + job.rto
    e.next_deadline = min(e.next_deadline, slot.deadline)


@compiled
def finish(e, job, slot):
    """This device is the last to add: round once, then give the result to all."""
    shared = contributor_class(slot.flags) == CLASS_ALL and slot.contributions > ONE
    if slot.op == MEAN and shared and slot.flags & HAS_DATA:
        divide(e, job, slot)
    if job.route == RING:
        slot.nodes = all_nodes(job)
    distribute(e, job, slot)


@compiled
def all_nodes(job):
    """Bitmap of the nodes of a job (at most 64 form a ring)."""
    return ~ZERO >> (U64(64) - U64(job.node_count))


@compiled
def divide(e, job, slot):
    """MEAN: one division by the number of ranks summed."""
    elements = U64(slot.length) // itemsize(e, slot.dtype)
    divisor = address_of(slot) + CONTRIBUTIONS_OFFSET
    call_kernel(kernel_address(e, FINISH, slot.dtype), slots.payload_of(e, job, slot.position), divisor, elements)


@compiled
def distribute(e, job, slot):
    """The slot holds the result: to the ranks here, to the devices below, or to the next node of the ring."""
    slots.occupy(e, job, slot, FINAL)
    if job.rank_mask != ZERO:
        deliver(e, job, slot, slots.payload_of(e, job, slot.position), slot.flags)
    if job.route == RING:
        pass_result(e, job, slot, slot.nodes)
    elif job.node_mask:
        fan_out(e, job, slot)
    else:
        slots.occupy(e, job, slot, DONE)


@compiled
def fan_out(e, job, slot):
    """One RESULT to each device below; who does not want the data gets a header as acknowledgement."""
    below = job.node_mask
    while below:
        bit = lowest_bit(below)
        below &= below - ONE
        unicast_result(e, job, slot, bit)


@compiled
def unicast_result(e, job, slot, bit):
    """The result to one device below."""
    child = child_at(e, child_index(job, bit))
    send_result(e, job, slot, child.address, bit, bit_of(bit), slot.wants & bit_of(bit))


@compiled
def pass_result(e, job, slot, nodes):
    """Ring: the result to the next node, unless all have it. `nodes`: those that had not taken it before this one."""
    slot.nodes = nodes & ~bit_of(job.node_index)
    if slot.nodes:
        slot.unacked |= SENT_RESULT
        start_timer(e, job, slot)
        send_result(e, job, slot, job.parent_address, job.node_index, slot.nodes, True)
    elif not slot.unacked:
        slots.occupy(e, job, slot, DONE)

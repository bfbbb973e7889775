"""The sender of a packet: only neighbours are heard, each for the opcodes of its side; the time is noted."""

from fanin_nic.engine.output.multicast_membership import on_invitation
from fanin_nic.engine.records.accessors import ZERO, bit_of, child_at, child_index, count
from fanin_nic.engine.records.tables import Counter
from fanin_nic.native.compiled import internal
from fanin_wire.abi import Route
from fanin_wire.fields import Opcode


@internal
def is_from_parent(job, opcode, source):
    """Whether a packet is an answer or a result of the device above."""
    if not job.has_parent or source != job.parent_address:
        return False
    return opcode in (
        Opcode.RESULT,
        Opcode.NEED,
        Opcode.WAIT,
        Opcode.CONFIG_ACK,
        Opcode.LEAVE_ACK,
        Opcode.ABORT,
        Opcode.NAK,
    )


@internal
def is_from_next(job, opcode, source):
    """Whether a packet is an answer of the next node of a ring."""
    if job.route != Route.RING or source != job.next_address:
        return False
    return opcode in (Opcode.CONFIG_ACK, Opcode.LEAVE_ACK, Opcode.ABORT, Opcode.NAK, Opcode.ACK)


@internal
def is_from_below(e, job, header, source):
    """Whether the sender is the device below (in a ring: the previous node) that the packet names. Notes the time."""
    if job.route == Route.RING:
        if source != job.previous_address or job.node_mask & bit_of(header.source) == ZERO:
            return False
        note_ring_neighbour(e, job, source)
        return True
    if job.node_joined & bit_of(header.source) == ZERO:
        # A member that gives up before its CONFIG comes may say so, which ends the job for all members.
        return header.opcode == Opcode.LEAVE and job.config_mask & bit_of(header.source) != ZERO
    child = child_at(e, child_index(job, header.source))
    if child.address != source:
        return False
    child.heard = e.now
    return True


@internal
def note_ring_neighbour(e, job, source):
    """A ring neighbour was heard; with two nodes it is both next and previous."""
    if source == job.next_address:
        job.heard_next = e.now
    if source == job.previous_address:
        job.heard_previous = e.now


@internal
def on_keepalive(e, job, header, source):
    """Event: KEEPALIVE of a neighbour."""
    if job.has_parent and source == job.parent_address:
        job.heard = e.now
        on_invitation(e, job, header)
    elif job.route == Route.RING and (source == job.next_address or source == job.previous_address):
        note_ring_neighbour(e, job, source)
    elif job.route == Route.RING or not is_from_below(e, job, header, source):
        count(e, Counter.DROP_SENDER)

"""The sender of a packet: only neighbours are heard, each for the opcodes of its side; the time is noted."""

from fanin_nic.engine.output.multicast_membership import on_invitation
from fanin_nic.engine.records.accessors import ZERO, bit_of, child_at, child_index, count
from fanin_nic.engine.records.tables import Counter
from fanin_nic.native.compiled import internal
from fanin_wire.abi import Route
from fanin_wire.fields import Opcode

RESULT, NEED, WAIT, ACK = int(Opcode.RESULT), int(Opcode.NEED), int(Opcode.WAIT), int(Opcode.ACK)
CONFIG_ACK, LEAVE, LEAVE_ACK = int(Opcode.CONFIG_ACK), int(Opcode.LEAVE), int(Opcode.LEAVE_ACK)
ABORT, NAK = int(Opcode.ABORT), int(Opcode.NAK)
RING = int(Route.RING)
DROP_SENDER = int(Counter.DROP_SENDER)


@internal
def is_from_parent(job, opcode, source):
    """Whether a packet is an answer or a result of the device above."""
    if not job.has_parent or source != job.parent_address:
        return False
    return opcode in (RESULT, NEED, WAIT, CONFIG_ACK, LEAVE_ACK, ABORT, NAK)


@internal
def is_from_next(job, opcode, source):
    """Whether a packet is an answer of the next node of a ring."""
    if job.route != RING or source != job.next_address:
        return False
    return opcode in (CONFIG_ACK, LEAVE_ACK, ABORT, NAK, ACK)


@internal
def is_from_below(e, job, header, source):
    """Whether the sender is the device below (in a ring: the previous node) that the packet names. Notes the time."""
    if job.route == RING:
        if source != job.previous_address or job.node_mask & bit_of(header.source) == ZERO:
            return False
        note_ring_neighbour(e, job, source)
        return True
    if job.node_joined & bit_of(header.source) == ZERO:
        # A member that gives up before its CONFIG comes may say so, which ends the job for all members.
        return header.opcode == LEAVE and job.config_mask & bit_of(header.source) != ZERO
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
    elif job.route == RING and (source == job.next_address or source == job.previous_address):
        note_ring_neighbour(e, job, source)
    elif job.route == RING or not is_from_below(e, job, header, source):
        count(e, DROP_SENDER)

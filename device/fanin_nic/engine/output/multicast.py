"""Results by multicast: one packet to the group of the device in place of one to each child.

The device sends invitations: a KEEPALIVE to its group when a job begins, and each keep-alive interval. A child that
gets one sets HEARS_GROUP in its CONTRIBUTIONs from then on (`multicast_membership`). A position whose contributions all
have the flag gets one RESULT, to the group. If the network does not carry the group to a child, it gets no invitation
either, and each child gets its own results, as in all repairs. All devices that listen receive the group's packets,
also outside the job, so a result goes there only if most listeners want it.
"""

from fanin_nic.engine.output.encapsulate import packet
from fanin_nic.engine.records.accessors import ONE, U64, ZERO, bit_of, header_at
from fanin_nic.engine.records.tables import Ahead
from fanin_nic.native.compiled import internal
from fanin_nic.native.memory import count_bits, lowest_bit
from fanin_wire.abi import Route
from fanin_wire.fields import Flag, Opcode


@internal
def invite(e, job):
    """A KEEPALIVE to the group."""
    job.invited_at = e.now
    header = header_at(e, packet(e, job, Opcode.KEEPALIVE, e.group))
    header.source = lowest_bit(job.node_mask)
    header.node_bitmap = job.node_mask


@internal
def may_invite(e, job):
    """Whether the group could serve the job: it has at least two children, who are most of the listeners."""
    if e.group == 0 or job.route == Route.RING or job.node_mask & (job.node_mask - ONE) == ZERO:
        return False
    return is_majority(e, count_bits(job.node_mask))


@internal
def is_majority(e, listeners):
    """Whether `listeners` are more than half of the group."""
    return U64(2) * listeners > U64(e.group_size)


@internal
def goes_to_group(e, job, slot):
    """Whether one RESULT to the group serves all children: each receives the group, and most want the data, if any."""
    if not may_invite(e, job) or slot.group_members != job.node_mask:
        return False
    if slot.wants == ZERO or slot.status != 0 or not slot.flags & Flag.HAS_DATA or slot.ahead & Ahead.SENT:
        return True
    wanting = count_bits(slot.wants)
    return is_majority(e, wanting) and U64(2) * wanting > count_bits(job.node_mask)


@internal
def note_group(job, slot, flags, bit):
    """Note whether the flags of a contribution say that its child hears the group."""
    if flags & Flag.HEARS_GROUP:
        slot.group_members |= bit_of(bit)
        job.hears_group |= bit_of(bit)
    else:
        job.hears_group &= ~bit_of(bit)


@internal
def serves_by_group(e, job, children):
    """Whether one packet to the group reaches all children of a bitmap, and is better than one to each."""
    if not may_invite(e, job) or children & ~job.hears_group != ZERO or children & (children - ONE) == ZERO:
        return False
    return is_majority(e, count_bits(children))

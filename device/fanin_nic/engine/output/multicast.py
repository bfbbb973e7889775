"""One packet for all children: a result goes to the multicast group of the device, if all of them hear it.

The device invites: a KEEPALIVE to its group when a job begins, then one each keep-alive interval. A child that has
heard one says so (HEARS_GROUP, see `hearing`) in each CONTRIBUTION from then on; a position whose contributions all
said so has one RESULT, to the group. Whatever keeps the group from a child, a network without multicast or one that has
lost its way, keeps the invitation from it, too: results then go to each by itself, as all repairs do.

Every device that listens gets what is sent to the group, also one that is in no job, or in another. So a result goes
there only if most of those that listen want it.
"""

from __future__ import annotations

from fanin_nic.engine.output.encapsulate import packet
from fanin_nic.engine.records.accessors import ONE, U64, ZERO, header_at
from fanin_nic.engine.slots.contribution import HAS_DATA
from fanin_nic.native.compiled import internal
from fanin_nic.native.memory import count_bits, lowest_bit
from fanin_wire.abi import Route
from fanin_wire.fields import Opcode

KEEPALIVE = int(Opcode.KEEPALIVE)
RING = int(Route.RING)


@internal
def invite(e, job):
    """KEEPALIVE to the group: whoever hears this may be given results by it."""
    job.invited_at = e.now
    header = header_at(e, packet(e, job, KEEPALIVE, e.group))
    header.source = lowest_bit(job.node_mask)
    header.node_bitmap = job.node_mask


@internal
def may_invite(e, job):
    """Whether a packet to the group could serve the job: two children at least, and most of those that listen."""
    if e.group == 0 or job.route == RING or job.node_mask & (job.node_mask - ONE) == ZERO:
        return False
    return is_majority(e, count_bits(job.node_mask))


@internal
def is_majority(e, listeners):
    """Whether so many are more than half of those that listen to the group."""
    return U64(2) * listeners > U64(e.group_size)


@internal
def goes_to_group(e, job, slot):
    """Whether one RESULT serves all children: each hears the group, and most want the data, if there are any."""
    if not may_invite(e, job) or slot.group_members != job.node_mask:
        return False
    if slot.wants == ZERO or slot.status != 0 or not slot.flags & HAS_DATA:
        return True
    wanting = count_bits(slot.wants)
    return is_majority(e, wanting) and U64(2) * wanting > count_bits(job.node_mask)

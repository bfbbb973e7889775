"""One packet for all children: a result goes to the multicast group of the device, if all of them hear it.

The device invites: a KEEPALIVE to its group when a job begins, then one each keep-alive interval. A child that has
heard one says so (HEARS_GROUP) in each CONTRIBUTION from then on; a position whose contributions all said so has one
RESULT, to the group. Whatever keeps the group from a child, a network without multicast or one that has lost its way,
keeps the invitation from it, too: results then go to each by itself, as all repairs do.

A RESULT of such a position that proves lost stops a child from saying so until it has heard another invitation; each
further such loss doubles how many it must hear, and each that it hears without one makes it fewer again.
"""

from __future__ import annotations

from fanin_nic.engine.packet.encapsulate import packet
from fanin_nic.engine.segment.contribute import HAS_DATA
from fanin_nic.engine.state import ONE, ZERO, bit_of, header_at
from fanin_nic.native.compiled import internal
from fanin_nic.native.memory import count_bits, lowest_bit
from fanin_wire.abi import Route
from fanin_wire.fields import Flag, Opcode

HEARS_GROUP = int(Flag.HEARS_GROUP)
KEEPALIVE = int(Opcode.KEEPALIVE)
RING = int(Route.RING)
MOST_LOSSES = 6  # that count: 63 invitations go by


@internal
def invite(e, job):
    """KEEPALIVE to the group: whoever hears it may be given results by it."""
    job.invited_at = e.now
    header = header_at(e, packet(e, job, KEEPALIVE, e.group))
    header.source = lowest_bit(job.node_mask)
    header.node_bitmap = job.node_mask


@internal
def may_invite(e, job):
    """Whether this device has a group, and the job more than one child to share a packet."""
    return e.group != 0 and job.route != RING and job.node_mask & (job.node_mask - ONE) != ZERO


@internal
def on_invitation(job, header):
    """Event: KEEPALIVE from the device above by its group."""
    if header.node_bitmap & bit_of(job.parent_bit) == ZERO:
        return
    if job.invitations_ignored:
        job.invitations_ignored -= 1
        return
    if job.hears_group and job.group_losses:
        job.group_losses -= 1
    job.hears_group = 1


@internal
def note_group_loss(job):
    """A result has proved lost: for a while, let them come by themselves."""
    if job.hears_group:
        job.hears_group = 0
        job.group_losses = min(job.group_losses + 1, MOST_LOSSES)
        job.invitations_ignored = (1 << job.group_losses) - 1


@internal
def goes_to_group(e, job, slot):
    """Whether one RESULT serves all children: each hears the group, and most of them want the data, if there are."""
    if not may_invite(e, job) or slot.hearers != job.node_mask:
        return False
    wanted = count_bits(slot.wants) if slot.flags & HAS_DATA and slot.status == 0 else 0
    return wanted == 0 or 2 * wanted > count_bits(job.node_mask)

"""Who is missing, or was lost: a bitmap, and whose children its bits are.

On a device the scope 0 means its own ranks or, on a switch, the devices below it; k >= 1 the children of the k-th device
above. In a ring the nodes of the ring are scope 1, the children of the switch above the ring scope 2. On the wire, in the
field `seg` of packets that name somebody (in the body of a WAIT, whose `seg` names a slot), stands the scope as the
receiver counts it, but that a switch does not know whether a child of it is a ring: the ring adds its own level.
"""

from __future__ import annotations

from fanin_nic.engine.records.accessors import U64, ZERO, bit_of
from fanin_nic.native.compiled import internal
from fanin_wire.abi import MAX_HOPS, Route

RING = int(Route.RING)
MAX_SCOPE = MAX_HOPS + 1


@internal
def ring_levels(job):
    """Levels between a node and the switch above it."""
    return 1 if job.route == RING else 0


@internal
def scope_below(job):
    """The scope of bits that name devices which send to this one."""
    return ring_levels(job)


@internal
def scope_above(job):
    """The scope of bits that name children of the device above."""
    return ring_levels(job) + 1


@internal
def set_missing_below(header, scope, missing):
    """Put into a packet to a device below who is meant."""
    header.seg = scope_for_below(scope)
    header.node_bitmap = missing


@internal
def scope_for_below(scope):
    """A scope as a device below counts it."""
    return scope + 1


@internal
def set_missing_beside(job, header, scope, missing):
    """Put into a packet to a node of the same ring who is meant; to the others, the ranks of a node are the node."""
    header.seg = max(scope, 1)
    header.node_bitmap = U64(missing) if scope else bit_of(job.node_index)


@internal
def set_missing_above(job, header, scope, missing):
    """Put into a packet to the device above who is meant; to it, everybody below this device is this device."""
    own = scope < scope_above(job)
    header.seg = 0 if own else scope - scope_above(job)
    header.node_bitmap = bit_of(job.parent_bit) if own else U64(missing)


@internal
def scope_from_above(job, header):
    """The scope that a packet of the device above means."""
    return scope_from_number_above(job, header.seg)


@internal
def scope_from_number_above(job, named):
    """The scope that the device above means by a number."""
    return min(max(int(named), 1) + ring_levels(job), MAX_SCOPE)


@internal
def scope_from_peer(job, header):
    """The scope that a packet of a device below, or of a node of the same ring, means."""
    return min(max(int(header.seg), ring_levels(job)), MAX_SCOPE)


@internal
def includes_this_device(job, scope, missing):
    """Whether this very device is among those that bits of a scope name."""
    if job.route == RING and scope == scope_below(job):
        return U64(missing) & bit_of(job.node_index) != ZERO
    return job.has_parent and scope == scope_above(job) and U64(missing) & bit_of(job.parent_bit) != ZERO

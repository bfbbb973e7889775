"""The scope of a bitmap of missing members: the device whose children its bits name.

Scope 0 means this device's own ranks or, on a switch, the devices below it; scope k >= 1 the children of the k-th
device above. In a ring scope 1 is its nodes, scope 2 the children of the switch above. A packet carries the scope as
its receiver counts it, in `seg`, or in the body of a WAIT, whose `seg` names a slot. A switch does not know which of
its children are rings, so a ring adds its own level. Record 0019: why a bitmap alone names nobody.
"""

from fanin_nic.engine.records.accessors import U64, ZERO, bit_of
from fanin_nic.native.compiled import internal
from fanin_wire.abi import MAX_HOPS, Route

MAX_SCOPE = MAX_HOPS + 1


@internal
def ring_levels(job):
    """Levels between a node and the switch above it."""
    return 1 if job.route == Route.RING else 0


@internal
def scope_below(job):
    """Scope of the devices that send to this one."""
    return ring_levels(job)


@internal
def scope_above(job):
    """Scope of the children of the device above."""
    return ring_levels(job) + 1


@internal
def set_missing_below(header, scope, missing):
    """Name missing members in a packet to a device below."""
    header.seg = scope_for_below(scope)
    header.node_bitmap = missing


@internal
def scope_for_below(scope):
    """The scope as a device below counts it."""
    return scope + 1


@internal
def set_missing_beside(job, header, scope, missing):
    """Name missing members in a packet to a node of the same ring; this node stands for its ranks."""
    header.seg = max(scope, 1)
    header.node_bitmap = U64(missing) if scope else bit_of(job.node_index)


@internal
def set_missing_above(job, header, scope, missing):
    """Name missing members in a packet to the device above; this device stands for those below it."""
    own = scope < scope_above(job)
    header.seg = 0 if own else scope - scope_above(job)
    header.node_bitmap = bit_of(job.parent_bit) if own else U64(missing)


@internal
def scope_from_above(job, header):
    """Scope of the bitmap in a packet of the device above."""
    return scope_from_number_above(job, header.seg)


@internal
def scope_from_number_above(job, named):
    """Scope that the device above sent as `named`."""
    return min(max(int(named), 1) + ring_levels(job), MAX_SCOPE)


@internal
def scope_from_peer(job, header):
    """Scope of the bitmap in a packet of a device below or a node of the same ring."""
    return min(max(int(header.seg), ring_levels(job)), MAX_SCOPE)


@internal
def includes_this_device(job, scope, missing):
    """Whether a bitmap of a scope names this device."""
    if job.route == Route.RING and scope == scope_below(job):
        return U64(missing) & bit_of(job.node_index) != ZERO
    return job.has_parent and scope == scope_above(job) and U64(missing) & bit_of(job.parent_bit) != ZERO

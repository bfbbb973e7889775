"""The members that a job misses: the device whose children a bitmap names, and the device whose loss ends a job.

Scope 0 means this device's own ranks or, on a switch, the devices below it; scope k >= 1 the children of the k-th
device above. In a ring scope 1 is its nodes, scope 2 the children of the switch above. A packet carries the scope as
its receiver counts it, in `seg`, or in the body of a WAIT, whose `seg` names a slot. A switch does not know which of
its children are rings, so a ring adds its own level. Record 0019: why a bitmap alone names nobody.

A bitmap of missing members can not name a switch: all behind it are missing. So its address is kept beside the bitmap,
and goes to neighbours in ABORT and LEAVE, and to ranks in completions.
"""

from fanin_nic.engine.records.accessors import U64, ZERO, abort, bit_of
from fanin_nic.engine.records.tables import JobState
from fanin_nic.native.compiled import internal
from fanin_wire.abi import MAX_HOPS, Route, Status
from fanin_wire.status import NAMING_A_DEVICE

MAX_SCOPE = MAX_HOPS + 1
ADDRESS_MASK = U64(0xFFFFFFFF)


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


@internal
def abort_naming(e, job, status, scope, missing, address):
    """End a job with a status, once. address: IPv4 of the device that is lost or at the other end of a path, for a
    status of NAMING_A_DEVICE; 0: not one, or not known."""
    if status in NAMING_A_DEVICE and job.state != JobState.ABORTED and job.state != JobState.FREE:
        job.lost_device = address
    abort(e, job, status, scope, missing)


@internal
def abort_lost(e, job, scope, missing, address):
    abort_naming(e, job, Status.PEER_LOST, scope, missing, address)


@internal
def lost_device_in(header):
    """Named by an ABORT or a LEAVE; 0: none."""
    return U64(header.rank_bitmap) & ADDRESS_MASK

"""The members that an operation waits for, as far as this device knows."""

from fanin_nic.engine.jobs.leave import not_joined
from fanin_nic.engine.jobs.missing_scope import includes_this_device
from fanin_nic.engine.jobs.ring_order import all_nodes, nodes_before
from fanin_nic.engine.records.accessors import ONE, U64, ZERO, bit_of, distance, queue_at, slot_at, slot_index
from fanin_nic.engine.records.tables import JobState, SlotState, Upward
from fanin_nic.native.compiled import internal
from fanin_nic.native.memory import lowest_bit
from fanin_wire.abi import Route, Status


@internal
def first_begun_position(e, job, position):
    """The given position if it is open, else the first open position of the job."""
    slot = slot_at(e, slot_index(job, position))
    if slot.position == position and slot.state != SlotState.DONE:
        return U64(position)
    for offset in range(job.slots):
        place = U64(job.base + offset) & U64(0xFFFFFFFF)
        slot = slot_at(e, slot_index(job, place))
        if slot.position != place or slot.state != SlotState.DONE:
            return place
    return U64(job.base)


@internal
def missing_for_position(e, job, position):
    """(scope, bitmap) of the members that a position waits for; one that has not begun here waits for those of the
    first open position of the job."""
    slot = slot_at(e, slot_index(job, first_begun_position(e, job, position)))
    if distance(slot.position, job.base) < 0 or slot.state == SlotState.DONE:
        return 0, U64(job.rank_mask)
    if slot.rank_missing != ZERO:
        return 0, late_ranks(e, job, slot)
    if slot.upward == Upward.SENT:
        return int(job.missing_kind), U64(job.missing)
    if job.route == Route.RING:
        return 1, missing_in_ring(e, job)
    return 0, U64(slot.node_missing)


@internal
def late_ranks(e, job, slot):
    """The ranks of this node that a position waits for, some of which may only wait for their turn."""
    late, ranks = U64(slot.rank_missing), U64(slot.rank_missing)
    while ranks:
        rank = lowest_bit(ranks)
        ranks &= ranks - ONE
        if job.queue[rank] and distance(queue_at(e, job.queue[rank] - 1).position, slot.position) > 0:
            late &= ~bit_of(rank)
    return late if late != ZERO else U64(slot.rank_missing)


@internal
def narrow_missing(e, job, status, scope, missing):
    """(scope, bitmap) of the members that a job waited for which ended at another device. Other devices can only name
    this device; for a TIMEOUT it names its own missing ranks or children."""
    if status == Status.TIMEOUT and includes_this_device(job, scope, missing):
        own_scope, own = missing_for_position(e, job, job.base) if job.state >= JobState.ACTIVE else not_joined(job)
        if own != ZERO and own_scope < scope:
            return own_scope, own
    return scope, U64(missing)


@internal
def missing_in_ring(e, job):
    """The nodes that all positions in flight can wait for.

    A missing partial waits between its start and this node; one that was sent on waits behind this node. Positions
    start at different nodes, so a single missing node is the one that they have in common.
    """
    common = all_nodes(job) & ~bit_of(job.node_index)
    for offset in range(job.window):
        slot = slot_at(e, slot_index(job, job.base + offset))
        if slot.position != U64(job.base + offset) & U64(0xFFFFFFFF) or slot.state == SlotState.DONE:
            continue
        waited = nodes_before(job, slot.sid) if slot.node_missing != ZERO else slot.nodes & ~bit_of(job.node_index)
        if common & waited == ZERO:  # more than one node
            return common | waited
        common &= waited
    return common

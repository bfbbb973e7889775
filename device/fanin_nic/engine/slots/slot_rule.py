"""The slot rule: the position that a slot serves, and when it may serve the next one.

Position p of a job uses slot p mod N. A child sends p only when it holds the result of p - W (W = N / 2). So a
contribution of p proves that every child holds p - N, and the slot may be replaced, without a version bit or a timer.
"""

from numba import int64

from fanin_nic.engine.records.accessors import ONE, U64, ZERO, distance, slot_at, slot_index
from fanin_nic.engine.records.tables import ENGINE, JOB, SLOT, SlotState
from fanin_nic.engine.records.trace import FREED, trace
from fanin_nic.native.compiled import internal, internal_for

STALE = 0
CURRENT = 1
REPLACE = 2
VIOLATION = 3


@internal
def verdict(job, slot, position):
    """What a packet about `position` means for the slot that serves it."""
    ahead = distance(position, slot.position)
    if ahead < 0:
        return STALE
    if ahead == 0:
        return CURRENT
    if ahead == job.slots and (slot.state == SlotState.FINAL or slot.state == SlotState.DONE):
        return REPLACE
    return VIOLATION


@internal
def waits_for_departed(job, slot):
    """Whether a slot waits for a rank or a device that has left, so that its position can not be complete."""
    return slot.rank_missing & job.rank_left != ZERO or slot.node_missing & job.node_left != ZERO


@internal
def claim(e, job, slot, position):
    """Give a slot to a new position. The caller fills in the completion bitmaps and the control information."""
    if slot.state != SlotState.DONE:
        trace(e, job, slot, FREED, 0)
    slot.position = position
    set_state(e, job, slot, SlotState.OPEN)
    slot.flags = 0
    slot.status = 0
    slot.unacked = 0
    slot.upward = 0
    slot.retries = 0
    slot.out_of_order = 0
    slot.unanswered = 0
    slot.first_probe_at = ZERO
    slot.ahead = 0
    slot.lacks_data = 0
    slot.folded = 0
    slot.pending = ZERO
    slot.zero_copy_address = ZERO
    slot.contributions = ZERO
    slot.delivered = ZERO
    slot.wants = ZERO
    slot.group_members = ZERO
    slot.nodes = ZERO
    slot.node_missing = ZERO
    slot.rank_missing = ZERO


@internal_for(ENGINE, JOB, SLOT, int64)
def set_state(e, job, slot, state):
    """Change the state of a slot, and count the slots with data and those in flight."""
    before, after = slot.state, state
    slot.state = after
    trace(e, job, slot, after, 0)  # the steps have the numbers of the states
    if before == SlotState.DONE and after != SlotState.DONE:
        job.in_flight += 1
        job.occupied += 1
        e.slots_used += 1
        job.high_water = max(job.high_water, job.occupied)
        e.slots_high_water = max(e.slots_high_water, e.slots_used)
    elif before != SlotState.DONE and after == SlotState.DONE:
        job.in_flight -= 1
        job.occupied -= 1
        e.slots_used -= 1


@internal
def advance_base(e, job):
    """Move the base of a job, and its window, over all positions that are done. The driver must have performed all
    actions, as a DMA_WRITE may still read the payload of a done slot."""
    for _ in range(job.slots):
        slot = slot_at(e, slot_index(job, job.base))
        if slot.state != SlotState.DONE or slot.position != job.base:
            return
        job.base += 1


@internal
def clear_lease(e, job):
    """Make all slots of a lease DONE, one lap before the job's base."""
    for index in range(job.slots):
        slot = slot_at(e, U64(job.slot_base) + U64(index))
        lap = (U64(job.base) - U64(job.slots)) + ((U64(index) - U64(job.base)) & (U64(job.slots) - ONE))
        slot.position = lap
        slot.state = SlotState.DONE
        slot.unacked = 0
        slot.upward = 0
        slot.zero_copy_address = ZERO
        slot.node_missing = ZERO
        slot.rank_missing = ZERO
    e.slots_used -= job.occupied
    job.occupied = 0
    job.in_flight = 0

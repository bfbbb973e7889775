"""How a contribution enters a slot, from a rank of this node or a device below (step S405).

The first data are copied, unless they stay where they are (`zero_copy`); later data are computed into the slot. Then
the contributor's bit is cleared; when both completion bitmaps are empty, `segments.complete` goes on. A reproducible
job folds its children in the order of their bits. Until their turn the data of a rank wait in its memory, those of a
device below in a buffer of their own. Record 0112: why the order of the ranks is the default.
"""

from numba import int64

from fanin_nic.engine.records.accessors import (
    ONE,
    U64,
    ZERO,
    bit_of,
    buffer_of,
    count,
    distance,
    payload_of,
    queue_at,
    request_at,
    request_index,
)
from fanin_nic.engine.records.geometry import entry_of, source_of
from fanin_nic.engine.records.tables import Counter, Upward
from fanin_nic.engine.slots.arithmetic import WIDE_ITEM, accumulate, itemsize, travels_wide
from fanin_nic.native.compiled import internal
from fanin_nic.native.memory import copy, count_bits, lowest_bit
from fanin_wire.abi import ContributorClass, JobFlag
from fanin_wire.fields import CLASS_MASK, CLASS_SHIFT, Flag

REPRODUCIBLE = int(JobFlag.REPRODUCIBLE_RUN | JobFlag.REPRODUCIBLE_SHAPE)


@internal
def contributor_class(flags):
    """The class in the flags of a CETH or a slot."""
    return (flags >> CLASS_SHIFT) & CLASS_MASK


@internal
def is_one_with_data(slot):
    """Whether a slot holds the data of a ONE position, which no later contribution can change."""
    return slot.flags & Flag.HAS_DATA and contributor_class(slot.flags) == ContributorClass.ONE


@internal
def describe(slot, op, dtype, flags, mid, sid):
    """Store the control information of the first contribution."""
    slot.op = op
    slot.dtype = dtype
    slot.flags = flags & (CLASS_MASK << CLASS_SHIFT)
    slot.mid = mid
    slot.sid = sid
    slot.length = 0


@internal
def matches(slot, op, dtype, flags, mid, sid):
    """Whether a later contribution describes the same segment as the first."""
    return (
        slot.op == op
        and slot.dtype == dtype
        and contributor_class(slot.flags) == contributor_class(flags)
        and slot.mid == mid
        and slot.sid == sid
    )


@internal
def order_of_rank(job, rank):
    """Place of a rank of this node in the fold."""
    return count_bits(job.rank_mask & (bit_of(rank) - ONE))


@internal
def order_of_node(job, bit):
    """Place of a device below in the fold: after the ranks of this node."""
    return count_bits(job.rank_mask) + count_bits(job.node_mask & (bit_of(bit) - ONE))


@internal
def add_data(e, job, slot, address, length, wide, order):
    """Compute data into the slot. length: bytes of the message; wide: they are f32; order: their child's place in the
    fold. False: the length differs, or a ONE position has a second contributor."""
    if slot.flags & Flag.HAS_DATA == 0:
        slot.flags |= Flag.HAS_DATA
        slot.length = length
    elif slot.length != length or contributor_class(slot.flags) == ContributorClass.ONE:
        return False
    if not has_turns(job, slot) or U64(slot.folded) == U64(order):
        fold(e, job, slot, address, wide)
        fold_followers(e, job, slot)
    else:
        keep_pending(e, job, slot, address, wide, order)
    count(e, Counter.SEGMENTS)
    return True


@internal
def has_turns(job, slot):
    """Whether a child's data wait for those of all children before it."""
    return job.flags & REPRODUCIBLE != 0 and contributor_class(slot.flags) != ContributorClass.ONE


@internal
def fold_followers(e, job, slot):
    """Fold what has waited for the children that are now in the sum."""
    while slot.pending and slot.pending & bit_of(slot.folded) != ZERO:
        fold_pending(e, job, slot, slot.folded)


@internal
def fold(e, job, slot, address, wide):
    """Fold one contribution into the sum; the first is copied."""
    target = payload_of(e, job, slot.position)
    if slot.folded == 0:
        copy(target, address, contribution_bytes(e, slot, wide))
        if wide:
            slot.flags |= Flag.WIDE
    else:
        accumulate(e, slot, target, address, wide)
    slot.folded += 1


@internal
def contribution_bytes(e, slot, wide):
    """Bytes of a contribution in the form in which it comes."""
    return U64(slot.length) // itemsize(e, slot.dtype) * WIDE_ITEM if wide else U64(slot.length)


@internal
def keep_pending(e, job, slot, address, wide, order):
    """Keep a contribution until its turn."""
    slot.pending |= bit_of(order)
    if U64(order) >= count_bits(job.rank_mask):
        copy(pending_buffer(e, job, slot, order), address, contribution_bytes(e, slot, wide))


@internal
def pending_data(e, job, slot, order):
    """Address of a kept contribution."""
    if U64(order) >= count_bits(job.rank_mask):
        return pending_buffer(e, job, slot, order)
    return data_of_rank(e, job, slot, order)


@internal
def data_of_rank(e, job, slot, order):
    """Address of the data of a rank of this node. Its request stays in its queue until the sum is complete."""
    ranks = U64(job.rank_mask)
    for _ in range(order):
        ranks &= ranks - ONE
    rank = lowest_bit(ranks)
    index = job.queue[rank] - 1
    queue = queue_at(e, index)
    number = queue.head
    request = request_at(e, request_index(e, index, number))
    while distance(request.first + request.count, slot.position) <= 0:
        number += 1
        request = request_at(e, request_index(e, index, number))
    return source_of(request, entry_of(queue, rank), U64(slot.sid))


@internal
def pending_buffer(e, job, slot, order):
    """Address of a device's buffer. If there are ranks, the first buffer has their sum."""
    ranks = int64(count_bits(job.rank_mask))
    return buffer_of(e, job, slot.position, int64(order) - max(ranks - 1, 0))


@internal
def fold_pending(e, job, slot, order):
    slot.pending &= ~bit_of(order)
    fold(e, job, slot, pending_data(e, job, slot, order), is_pending_wide(e, job, slot, order))


@internal
def fold_rest(e, job, slot):
    """All are in: fold what still waits for a child without data."""
    while slot.pending != ZERO:
        fold_pending(e, job, slot, lowest_bit(slot.pending))


@internal
def is_pending_wide(e, job, slot, order):
    """Whether a kept contribution is f32. In a job with WIDE partials those of devices are, those of ranks are not."""
    below = U64(order) >= count_bits(job.rank_mask)
    return below and travels_wide(e, job, slot.op, slot.dtype, contributor_class(slot.flags))


@internal
def poison(slot, status):
    """Make a position end with a status: the highest of several, whatever their order of arrival. If its data have gone
    up or ahead already, it fails only for those that brought the status."""
    if slot.upward == Upward.NOTHING and not slot.ahead:
        slot.status = max(slot.status, status)

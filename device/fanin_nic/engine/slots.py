"""A slot: the rule by which a position takes it, the contributions in it, and the arithmetic on them.

Position p of a job uses slot p mod N. A child sends p only when it holds the result of p - W (W = N / 2). So a
contribution of p proves that every child holds p - N, and the slot may be replaced, without a version bit or a timer.

The first data are copied into the slot; later data are computed into it. Then the contributor's bit is cleared; when
both completion bitmaps are empty, `segments.complete` goes on. A reproducible job folds its children in the order of
their bits. Until their turn the data of a rank wait in its memory, those of a device below in a buffer of their own.
Record 0112: why the order of the ranks is the default.

Zero copy: the data of the only rank of a NIC are sent from the rank's memory. No other data are added here, and the
rank must not change them until its request is complete. Lost data are read once more, and then copied for good. So no
result of the request may overwrite data that may be sent again: results must go to where their own data are, or to
memory apart from all data. If the memory of a request is deregistered, its job ends. Record 0024 has the three rules
that keep this safe.

Small floats (f16, bf16) are computed in f32: the second contribution widens the slot (its flag WIDE). The slot is
rounded when it leaves the device or, in a job with WIDE partials, once in the completing device.
"""

from numba import int64, uint64

from fanin_nic.engine.kernels import FINISH, NARROW, WIDEN
from fanin_nic.engine.kernels.table import MAX_DTYPES
from fanin_nic.engine.records.accessors import (
    ONE,
    U64,
    ZERO,
    bit_of,
    buffer_of,
    count,
    distance,
    entry_of,
    payload_of,
    queue_at,
    range_bytes,
    request_at,
    request_index,
    slot_at,
    slot_index,
    source_of,
)
from fanin_nic.engine.records.tables import ENGINE, JOB, SLOT, Counter, SlotState, Upward
from fanin_nic.engine.records.trace import trace
from fanin_nic.native.compiled import internal, internal_for
from fanin_nic.native.memory import address_of, call_kernel, copy, count_bits, load_u64, lowest_bit
from fanin_wire.abi import ContributorClass, DType, JobFlag, Op
from fanin_wire.datatypes import WIDE_BYTES
from fanin_wire.fields import CLASS_MASK, CLASS_SHIFT, Flag
from fanin_wire.operations import OPERATIONS
from fanin_wire.tap import Step

STALE, CURRENT, REPLACE, VIOLATION = range(4)  # what the slot rule says of a packet
REPRODUCIBLE = JobFlag.REPRODUCIBLE_RUN | JobFlag.REPRODUCIBLE_SHAPE
# Rounding at each node would make the result depend on the shape.
JOB_WIDE = JobFlag.WIDE | JobFlag.REPRODUCIBLE_SHAPE
ROUNDING = tuple(entry.code for entry in OPERATIONS if entry.rounds)
WIDE_ITEM = U64(WIDE_BYTES)
LAST_OP = int(max(Op))
CONTRIBUTIONS_OFFSET = U64(SLOT.fields["contributions"][1])  # type: ignore[index]


# The slot rule


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
def claim(e, job, slot, position):
    """Give a slot to a new position. The caller fills in the completion bitmaps and the control information."""
    if slot.state != SlotState.DONE:
        trace(e, job, slot, Step.FREED, 0)
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


@internal
def waits_for_departed(job, slot):
    """Whether a slot waits for a rank or a device that has left, so that its position can not be complete."""
    return slot.rank_missing & job.rank_left != ZERO or slot.node_missing & job.node_left != ZERO


# What a slot is about


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
def contributor_class(flags):
    """The class in the flags of a CETH or a slot."""
    return (flags >> CLASS_SHIFT) & CLASS_MASK


@internal
def is_one_with_data(slot):
    """Whether a slot holds the data of a ONE position, which no later contribution can change."""
    return slot.flags & Flag.HAS_DATA and contributor_class(slot.flags) == ContributorClass.ONE


@internal
def poison(slot, status):
    """Make a position end with a status: the highest of several, whatever their order of arrival. If its data have gone
    up or ahead already, it fails only for those that brought the status."""
    if slot.upward == Upward.NOTHING and not slot.ahead:
        slot.status = max(slot.status, status)


# Contributions


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
def order_of_rank(job, rank):
    """Place of a rank of this node in the fold."""
    return count_bits(job.rank_mask & (bit_of(rank) - ONE))


@internal
def order_of_node(job, bit):
    """Place of a device below in the fold: after the ranks of this node."""
    return count_bits(job.rank_mask) + count_bits(job.node_mask & (bit_of(bit) - ONE))


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
def fold_followers(e, job, slot):
    """Fold what has waited for the children that are now in the sum."""
    while slot.pending and slot.pending & bit_of(slot.folded) != ZERO:
        fold_pending(e, job, slot, slot.folded)


@internal
def fold_rest(e, job, slot):
    """All are in: fold what still waits for a child without data."""
    while slot.pending != ZERO:
        fold_pending(e, job, slot, lowest_bit(slot.pending))


@internal
def fold_pending(e, job, slot, order):
    slot.pending &= ~bit_of(order)
    fold(e, job, slot, pending_data(e, job, slot, order), is_pending_wide(e, job, slot, order))


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
def pending_buffer(e, job, slot, order):
    """Address of a device's buffer. If there are ranks, the first buffer has their sum."""
    ranks = int64(count_bits(job.rank_mask))
    return buffer_of(e, job, slot.position, int64(order) - max(ranks - 1, 0))


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
def is_pending_wide(e, job, slot, order):
    """Whether a kept contribution is f32. In a job with WIDE partials those of devices are, those of ranks are not."""
    below = U64(order) >= count_bits(job.rank_mask)
    return below and travels_wide(e, job, slot.op, slot.dtype, contributor_class(slot.flags))


@internal
def contribution_bytes(e, slot, wide):
    """Bytes of a contribution in the form in which it comes."""
    return U64(slot.length) // itemsize(e, slot.dtype) * WIDE_ITEM if wide else U64(slot.length)


# Zero copy


@internal
def may_send_in_place(e, job, request, address):
    """Whether a request's data are sent from where they are. address: its abi.ADDRESS as posted. A node of a ring has
    the previous node below it, so it is excluded."""
    alone = job.has_parent and job.node_mask == ZERO and job.rank_mask & (job.rank_mask - ONE) == ZERO
    if not alone or request.poison or request.inline or request.source_process:
        return False
    if travels_wide(e, job, request.op, request.dtype, request.contributors):
        return False
    return not overwrites_own_data(request, address)


@internal
def overwrites_own_data(request, address):
    """Whether results of a request overwrite data of its other segments. Addresses are those of the program, since
    memory registered twice has two device addresses."""
    wanted = range_bytes(request.length, request.block, address.destination_first, address.destination_blocks)
    brought = range_bytes(request.length, request.block, address.source_first, address.source_blocks)
    if wanted == ZERO or brought == ZERO:
        return False
    if address.destination + wanted <= address.source or address.source + brought <= address.destination:
        return False
    behind = U64(address.destination_first) * request.block - U64(address.source_first) * request.block
    return address.destination - address.source != behind


@internal
def reference_data(e, slot, address, length):
    """Let a slot refer to the data of its only contributor."""
    slot.flags |= Flag.HAS_DATA
    slot.length = length
    slot.zero_copy_address = address
    count(e, Counter.SEGMENTS)


@internal
def copy_referenced_data(e, job, slot):
    """So that all further packets carry the same data."""
    if slot.zero_copy_address != ZERO:
        copy(payload_of(e, job, slot.position), slot.zero_copy_address, U64(slot.length))
        slot.zero_copy_address = ZERO


@internal
def data_address(e, job, slot):
    """Address of a slot's data: in its buffer, or in the rank's memory."""
    return U64(slot.zero_copy_address) if slot.zero_copy_address != ZERO else payload_of(e, job, slot.position)


# Arithmetic


@internal
def accumulate(e, slot, target, data, wide):
    """Compute the data of one more contributor into the slot. wide: they are f32."""
    dtype = slot.dtype
    if is_computed_wide(e, slot.op, slot.dtype):
        widen(e, slot, target)
        dtype = DType.F32 if wide else slot.dtype
    call_kernel(kernel_address(e, slot.op, dtype), target, data, elements_of(e, slot))


@internal
def convert_partial(e, job, slot, target):
    """Bring the partial of a slot into the form in which it is sent."""
    if travels_wide(e, job, slot.op, slot.dtype, contributor_class(slot.flags)):
        widen(e, slot, target)
    else:
        narrow(e, slot, target)


@internal
def finish_result(e, slot, target, shared):
    """The division of MEAN (shared: by more than one contributor), and the rounding."""
    if slot.op == Op.MEAN and shared:
        if is_computed_wide(e, slot.op, slot.dtype):
            widen(e, slot, target)
        divisor = address_of(slot) + CONTRIBUTIONS_OFFSET
        call_kernel(kernel_address(e, FINISH, slot.dtype), target, divisor, elements_of(e, slot))
    narrow(e, slot, target)


@internal
def widen(e, slot, target):
    """Turn the payload of a slot, at `target`, into f32."""
    if not slot.flags & Flag.WIDE:
        call_kernel(kernel_address(e, WIDEN, slot.dtype), target, target, elements_of(e, slot))
        slot.flags |= Flag.WIDE


@internal
def narrow(e, slot, target):
    """Round the payload of a slot to its own type."""
    if slot.flags & Flag.WIDE:
        call_kernel(kernel_address(e, NARROW, slot.dtype), target, target, elements_of(e, slot))
        slot.flags &= ~Flag.WIDE


@internal
def is_computed_wide(e, op, dtype):
    """Whether sums of a type are kept in f32."""
    return op in ROUNDING and dtype < MAX_DTYPES and kernel_address(e, WIDEN, dtype) != ZERO


@internal
def travels_wide(e, job, op, dtype, contributors):
    """Whether the partials of a segment travel as f32."""
    return job.flags & JOB_WIDE and contributors == ContributorClass.ALL and is_computed_wide(e, op, dtype)


@internal
def payload_bytes(e, slot):
    """Bytes of a slot's payload in its present form."""
    return elements_of(e, slot) * WIDE_ITEM if slot.flags & Flag.WIDE else U64(slot.length)


@internal
def segment_bytes(e, job, chunk, op, dtype, contributors):
    """Bytes of the message in a full segment: its request's chunk, or less if f32 partials of it fill the chunk."""
    return U64(chunk) // (WIDE_ITEM // itemsize(e, dtype) if travels_wide(e, job, op, dtype, contributors) else U64(1))


@internal
def elements_of(e, slot):
    return U64(slot.length) // itemsize(e, slot.dtype)


@internal
def itemsize(e, dtype):
    """Bytes of an element, in row 0 of the kernels as no op has the number 0; 0 for an unknown type."""
    return kernel_address(e, 0, dtype) if dtype < MAX_DTYPES else ZERO


@internal
def is_supported(e, op, dtype):
    return 0 < op <= LAST_OP and dtype < MAX_DTYPES and kernel_address(e, op, dtype) != ZERO


@internal_for(ENGINE, int64, int64, returns=uint64)
def kernel_address(e, row, dtype):
    """0 where op and type have no kernel."""
    if U64(dtype) >= U64(MAX_DTYPES):
        return ZERO
    place = U64(row) * U64(MAX_DTYPES) + U64(dtype)
    return load_u64(address_of(e) + e.kernel_offset + place * U64(8))

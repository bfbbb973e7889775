"""A contribution enters a segment: from a rank of this node or from a device below.

The first data is copied, every later one computed into the slot; then the contributor's bit is cleared. This is S405 of
the flow; `complete` goes on when both completion bitmaps are empty.
"""

from __future__ import annotations

from fanin_nic.engine.segment import slots
from fanin_nic.engine.segment.kernels import FINISH
from fanin_nic.engine.state import MAX_DTYPES, U64, ZERO, Counter, count
from fanin_nic.native.compiled import compiled
from fanin_nic.native.memory import address_of, call_kernel, copy, load_u64
from fanin_wire.abi import ContributorClass
from fanin_wire.fields import CLASS_MASK, CLASS_SHIFT, Flag

HAS_DATA = int(Flag.HAS_DATA)
WANTS_RESULT = int(Flag.WANTS_RESULT)
CLASS_ONE = int(ContributorClass.ONE)
SEGMENTS = int(Counter.SEGMENTS)


@compiled
def kernel_address(e, row, dtype):
    """Address of a kernel; 0 where op and type have none."""
    place = U64(row) * U64(MAX_DTYPES) + U64(dtype)
    return load_u64(address_of(e) + e.kernel_offset + place * U64(8))


@compiled
def is_supported(e, op, dtype):
    """Whether op and type have a kernel. The first row of the table (item sizes) and the last (FINISH) are no ops."""
    return 0 < op < FINISH and dtype < MAX_DTYPES and kernel_address(e, op, dtype) != ZERO


@compiled
def itemsize(e, dtype):
    """Bytes of an element; 0 for an unknown type. The table lies behind that of the kernels, as row 0 has no op."""
    return kernel_address(e, 0, dtype)


@compiled
def contributor_class(flags):
    """The contributor class in the flags of a CETH or of a slot."""
    return (flags >> CLASS_SHIFT) & CLASS_MASK


@compiled
def describe(slot, op, dtype, flags, mid, sid):
    """Store the control information of the first contribution with the slot."""
    slot.op = op
    slot.dtype = dtype
    slot.flags = flags & (CLASS_MASK << CLASS_SHIFT)
    slot.mid = mid
    slot.sid = sid
    slot.length = 0


@compiled
def matches(slot, op, dtype, flags, mid, sid):
    """Whether a later contribution describes the same segment as the first."""
    return (
        slot.op == op
        and slot.dtype == dtype
        and contributor_class(slot.flags) == contributor_class(flags)
        and slot.mid == mid
        and slot.sid == sid
    )


@compiled
def add_data(e, job, slot, address, length):
    """Compute data into the slot. False: another length, or a second contributor of a ONE position."""
    target = slots.payload_of(e, job, slot.position)
    if slot.flags & HAS_DATA == 0:
        slot.flags |= HAS_DATA
        slot.length = length
        copy(target, address, U64(slot.length))
    elif slot.length != length or contributor_class(slot.flags) == CLASS_ONE:
        return False
    else:
        elements = U64(slot.length) // itemsize(e, slot.dtype)
        call_kernel(kernel_address(e, slot.op, slot.dtype), target, address, elements)
    count(e, SEGMENTS)
    return True


@compiled
def poison(slot, status):
    """Make a position end with a status; of several the highest code is kept, whatever the order of arrival."""
    slot.status = max(slot.status, status)

"""Arithmetic on slots: the kernel for an op and a type, and the form of the numbers in a slot.

Small floats (f16, bf16) are computed in f32: the second contribution widens the slot (its flag WIDE). The slot is
rounded when it leaves the device or, in a job with WIDE partials, once in the completing device.
"""

from numba import int64, uint64

from fanin_nic.engine.kernels import FINISH, NARROW, WIDEN
from fanin_nic.engine.kernels.table import MAX_DTYPES
from fanin_nic.engine.records.accessors import U64, ZERO
from fanin_nic.engine.records.tables import ENGINE, SLOT
from fanin_nic.native.compiled import internal, internal_for
from fanin_nic.native.memory import address_of, call_kernel, load_u64
from fanin_wire.abi import ContributorClass, DType, JobFlag, Op
from fanin_wire.datatypes import WIDE_BYTES
from fanin_wire.fields import CLASS_MASK, CLASS_SHIFT, Flag
from fanin_wire.operations import OPERATIONS

JOB_WIDE = int(
    JobFlag.WIDE | JobFlag.REPRODUCIBLE_SHAPE
)  # rounding at each node would make the result depend on the shape
ROUNDING = tuple(entry.code for entry in OPERATIONS if entry.rounds)
WIDE_ITEM = U64(WIDE_BYTES)
LAST_OP = int(max(Op))
CONTRIBUTIONS_OFFSET = U64(SLOT.fields["contributions"][1])  # type: ignore[index]


@internal_for(ENGINE, int64, int64, returns=uint64)
def kernel_address(e, row, dtype):
    """0 where op and type have no kernel."""
    if U64(dtype) >= U64(MAX_DTYPES):
        return ZERO
    place = U64(row) * U64(MAX_DTYPES) + U64(dtype)
    return load_u64(address_of(e) + e.kernel_offset + place * U64(8))


@internal
def is_supported(e, op, dtype):
    return 0 < op <= LAST_OP and dtype < MAX_DTYPES and kernel_address(e, op, dtype) != ZERO


@internal
def itemsize(e, dtype):
    """Bytes of an element, in row 0 of the kernels as no op has the number 0; 0 for an unknown type."""
    return kernel_address(e, 0, dtype) if dtype < MAX_DTYPES else ZERO


@internal
def is_computed_wide(e, op, dtype):
    """Whether sums of a type are kept in f32."""
    return op in ROUNDING and dtype < MAX_DTYPES and kernel_address(e, WIDEN, dtype) != ZERO


@internal
def travels_wide(e, job, op, dtype, contributors):
    """Whether the partials of a segment travel as f32."""
    return job.flags & JOB_WIDE and contributors == ContributorClass.ALL and is_computed_wide(e, op, dtype)


@internal
def elements_of(e, slot):
    return U64(slot.length) // itemsize(e, slot.dtype)


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
    if travels_wide(e, job, slot.op, slot.dtype, (slot.flags >> CLASS_SHIFT) & CLASS_MASK):
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
def payload_bytes(e, slot):
    """Bytes of a slot's payload in its present form."""
    return elements_of(e, slot) * WIDE_ITEM if slot.flags & Flag.WIDE else U64(slot.length)


@internal
def segment_bytes(e, job, chunk, op, dtype, contributors):
    """Bytes of the message in a full segment: its request's chunk, or less if f32 partials of it fill the chunk."""
    return U64(chunk) // (WIDE_ITEM // itemsize(e, dtype) if travels_wide(e, job, op, dtype, contributors) else U64(1))

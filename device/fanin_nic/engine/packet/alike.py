"""A contribution like the one before it of the same child takes a shorter way to the same end: most are.

What was found out about that one holds for all whose headers are equal but for the place in the stream: whose it is,
that it can be meant, and what computes it. The record of the child keeps those headers. What is left is the slot rule
and the arithmetic. Whatever is unusual, in the packet or in the slot, goes the way of all packets (`parse`).
"""

from __future__ import annotations

from fanin_nic.engine.segment import slots
from fanin_nic.engine.segment.arithmetic import WIDE, elements_of, is_computed_wide, kernel_address
from fanin_nic.engine.segment.contribute import CLASS_MASK, CLASS_SHIFT, HAS_DATA, SEGMENTS, WANTS_RESULT, describe
from fanin_nic.engine.segment.proceed import proceed
from fanin_nic.engine.state import (
    ONE,
    U64,
    ZERO,
    bit_of,
    child_at,
    child_index,
    count,
    job_at,
    payload_of,
    slot_at,
    slot_index,
)
from fanin_nic.engine.tables import CHILD, MAX_CHILDREN, Counter, JobState
from fanin_nic.native.codec import equal_under, mask_without
from fanin_nic.native.compiled import internal
from fanin_nic.native.memory import address_of, call_kernel, copy, load_be16, load_be32, load_u8
from fanin_wire.abi import ContributorClass
from fanin_wire.fields import BTH, CETH, TRANSPORT_SIZE, Flag, Opcode

ACTIVE = int(JobState.ACTIVE)
HEARS_GROUP = int(Flag.HEARS_GROUP)
CLASS_ALL = int(ContributorClass.ALL) << CLASS_SHIFT
KIND = CLASS_MASK << CLASS_SHIFT | HAS_DATA | WIDE
USUAL = CLASS_ALL | HAS_DATA  # of KIND
RX_CONTRIBUTION = int(Counter.RX_FIRST) + (int(Opcode.CONTRIBUTION) & 15)
LIKE_HEADER = U64(CHILD.fields["like_header"][1])  # type: ignore[index]
HEADERS = U64(TRANSPORT_SIZE)
BUT_FOR_PLACE = mask_without(("psn", "position", "mid", "sid", "seg", "segment_index"))
equal_but_for_place = equal_under(BUT_FOR_PLACE)


def _place(name):
    return U64(BTH.size + CETH.byte_offset(name))


OP, DTYPE, FLAGS, SOURCE = _place("op"), _place("dtype"), _place("flags"), _place("source")
POSITION, MID, SID, SEG = _place("position"), _place("mid"), _place("sid"), _place("seg")
LENGTH, CONTRIBUTIONS = _place("length"), _place("contributions")


@internal
def remember(e, job, slot, header, payload):
    """A contribution has been taken into a slot: others like it may follow. Its headers lie right before `payload`."""
    if header.flags & KIND != USUAL or header.status or job.buffers != job.span:
        return
    if is_computed_wide(e, slot.op, slot.dtype):
        return
    child = child_at(e, child_index(job, header.source))
    child.like_length = HEADERS + U64(header.length) + U64(header.padcount)
    child.like_kernel = kernel_address(e, slot.op, slot.dtype)
    child.like_elements = elements_of(e, slot)
    copy(address_of(child) + LIKE_HEADER, payload - HEADERS, HEADERS)


@internal
def take(e, address, length, source):
    """Take a packet (arguments of `parse.on_packet`) if it is such a contribution. False: nothing has been done."""
    job = job_at(e, e.last_job)
    bit = U64(load_u8(address + SOURCE)) & U64(MAX_CHILDREN - 1)
    child = child_at(e, child_index(job, bit))
    if child.like_length != length or child.address != source or job.state != ACTIVE:
        return False
    if not equal_but_for_place(address, address_of(child) + LIKE_HEADER):
        return False
    position = load_be32(address + POSITION)
    slot = slot_at(e, slot_index(job, position))
    if U64(load_be16(address + SEG)) != U64(position) & (U64(job.slots) - ONE):
        return False
    verdict = slots.verdict(job, slot, position)
    if verdict == slots.REPLACE:
        begin(e, job, slot, address, position)
        copy(payload_of(e, job, position), address + HEADERS, U64(slot.length))
    elif verdict == slots.CURRENT and fits(slot, address, bit):
        call_kernel(child.like_kernel, payload_of(e, job, position), address + HEADERS, child.like_elements)
    else:
        return False
    child.heard = e.now
    count(e, RX_CONTRIBUTION)
    count(e, SEGMENTS)
    enter(e, job, slot, address, bit)
    return True


@internal
def begin(e, job, slot, address, position):
    """The first contribution to a position."""
    op, dtype, flags = load_u8(address + OP), load_u8(address + DTYPE), load_u8(address + FLAGS)
    slots.claim(e, job, slot, position)
    slot.node_missing = job.node_mask
    describe(slot, op, dtype, flags, load_be32(address + MID), load_be32(address + SID))
    slot.flags |= HAS_DATA
    slot.length = load_be16(address + LENGTH)


@internal
def fits(slot, address, bit):
    """Whether a contribution continues what is in its slot, and is the first of its child."""
    return (
        slot.node_missing & bit_of(bit) != ZERO
        and slot.flags & KIND == USUAL
        and slot.length == load_be16(address + LENGTH)
        and slot.op == load_u8(address + OP)
        and slot.dtype == load_u8(address + DTYPE)
        and slot.mid == load_be32(address + MID)
        and slot.sid == load_be32(address + SID)
    )


@internal
def enter(e, job, slot, address, bit):
    """The data are in the sum: note who has brought them, and go on if nobody is missing."""
    flags = load_u8(address + FLAGS)
    slot.folded += 1
    slot.contributions += U64(load_be32(address + CONTRIBUTIONS))
    if flags & WANTS_RESULT:
        slot.wants |= bit_of(bit)
    if flags & HEARS_GROUP:
        slot.hearers |= bit_of(bit)
    slot.node_missing &= ~bit_of(bit)
    if slot.node_missing | slot.rank_missing == ZERO or job.node_left | job.rank_left != ZERO:
        proceed(e, job, slot)

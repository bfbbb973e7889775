"""Header prediction: a contribution that matches the previous one of its child takes a short path, as most do.

A child's record keeps the headers of its last contribution. If the next headers are equal except for the fields that
change from segment to segment, the findings about sender, validity and kernel still hold; the slot rule and the
arithmetic are left. All other packets, and slots in unusual states, take the path of `dispatch`. (As Van Jacobson's
header prediction in TCP, RFC 1323.) Record 0026: what it gains, and where the rest of the time goes.
"""

from fanin_nic.engine import slots
from fanin_nic.engine.output import note_group
from fanin_nic.engine.records.accessors import (
    ONE,
    U64,
    ZERO,
    bit_of,
    child_at,
    child_index,
    count,
    job_at,
    payload_of,
    proceed,
    slot_at,
    slot_index,
)
from fanin_nic.engine.records.tables import CHILD, Counter, JobState
from fanin_nic.engine.records.trace import trace
from fanin_nic.engine.slots import (
    CLASS_MASK,
    CLASS_SHIFT,
    describe,
    elements_of,
    fold_followers,
    has_turns,
    is_computed_wide,
    keep_pending,
    kernel_address,
    order_of_node,
)
from fanin_nic.native.codec import equal_under, mask_without
from fanin_nic.native.compiled import internal
from fanin_nic.native.memory import address_of, call_kernel, copy, load_be16, load_be32, load_u8
from fanin_wire.abi import MAX_CHILDREN, ContributorClass
from fanin_wire.fields import BTH, CETH, TRANSPORT_SIZE, Flag, Opcode
from fanin_wire.tap import Step

CLASS_ALL = ContributorClass.ALL << CLASS_SHIFT
COMPARED_FLAGS = CLASS_MASK << CLASS_SHIFT | int(Flag.HAS_DATA | Flag.WIDE)
PREDICTED_FLAGS = CLASS_ALL | int(Flag.HAS_DATA)  # of COMPARED_FLAGS
RX_CONTRIBUTION = Counter.RX_FIRST + (Opcode.CONTRIBUTION & 15)
PREDICTED_HEADER = U64(CHILD.fields["predicted_header"][1])  # type: ignore[index]
HEADERS_SIZE = U64(TRANSPORT_SIZE)
HEADER_MASK = mask_without(("psn", "position", "mid", "sid", "seg", "segment_index"))
equal_under_mask = equal_under(HEADER_MASK)


def _place(name):
    return U64(BTH.size + CETH.byte_offset(name))


OP, DTYPE, FLAGS, SOURCE = _place("op"), _place("dtype"), _place("flags"), _place("source")
POSITION, MID, SID, SEG = _place("position"), _place("mid"), _place("sid"), _place("seg")
LENGTH, CONTRIBUTIONS = _place("length"), _place("contributions")


@internal
def store_prediction(e, job, slot, header, payload):
    """Store the headers of a contribution, which lie right before `payload`, as the prediction for its child."""
    if header.flags & COMPARED_FLAGS != PREDICTED_FLAGS or header.status:
        return
    if is_computed_wide(e, slot.op, slot.dtype):
        return
    child = child_at(e, child_index(job, header.source))
    child.predicted_order = order_of_node(job, header.source)
    child.predicted_length = HEADERS_SIZE + U64(header.length) + U64(header.padcount)
    child.predicted_kernel = kernel_address(e, slot.op, slot.dtype)
    child.predicted_elements = elements_of(e, slot)
    copy(address_of(child) + PREDICTED_HEADER, payload - HEADERS_SIZE, HEADERS_SIZE)


@internal
def take_predicted(e, address, length, source):
    """Take a packet (arguments as of `dispatch.on_packet`) if it matches the prediction. False: nothing was done."""
    job = job_at(e, e.last_job)
    bit = U64(load_u8(address + SOURCE)) & U64(MAX_CHILDREN - 1)
    child = child_at(e, child_index(job, bit))
    if child.predicted_length != length or child.address != source or job.state != JobState.ACTIVE:
        return False
    if not equal_under_mask(address, address_of(child) + PREDICTED_HEADER):
        return False
    position = load_be32(address + POSITION)
    slot = slot_at(e, slot_index(job, position))
    if U64(load_be16(address + SEG)) != U64(position) & (U64(job.slots) - ONE):
        return False
    verdict = slots.verdict(job, slot, position)
    if verdict == slots.REPLACE:
        claim_predicted(e, job, slot, address, position)
    elif verdict != slots.CURRENT or not continues_slot(slot, address, bit):
        return False
    if not has_turns(job, slot) or U64(slot.folded) == U64(child.predicted_order):
        fold_predicted(e, job, slot, child, address + HEADERS_SIZE)
        fold_followers(e, job, slot)
    else:
        keep_pending(e, job, slot, address + HEADERS_SIZE, False, child.predicted_order)
    child.heard = e.now
    count(e, RX_CONTRIBUTION)
    count(e, Counter.SEGMENTS)
    add_contributor(e, job, slot, address, bit)
    return True


@internal
def fold_predicted(e, job, slot, child, data):
    target = payload_of(e, job, slot.position)
    if slot.folded:
        call_kernel(child.predicted_kernel, target, data, child.predicted_elements)
    else:
        copy(target, data, U64(slot.length))
    slot.folded += 1


@internal
def claim_predicted(e, job, slot, address, position):
    """Claim a slot for the first contribution to a position."""
    op, dtype, flags = load_u8(address + OP), load_u8(address + DTYPE), load_u8(address + FLAGS)
    slots.claim(e, job, slot, position)
    slot.node_missing = job.node_mask
    describe(slot, op, dtype, flags, load_be32(address + MID), load_be32(address + SID))
    slot.flags |= Flag.HAS_DATA
    slot.length = load_be16(address + LENGTH)


@internal
def continues_slot(slot, address, bit):
    """Whether a contribution matches its slot's control information, and is the first of its child."""
    return (
        slot.node_missing & bit_of(bit) != ZERO
        and slot.flags & COMPARED_FLAGS == PREDICTED_FLAGS
        and slot.length == load_be16(address + LENGTH)
        and slot.op == load_u8(address + OP)
        and slot.dtype == load_u8(address + DTYPE)
        and slot.mid == load_be32(address + MID)
        and slot.sid == load_be32(address + SID)
    )


@internal
def add_contributor(e, job, slot, address, bit):
    """The data are in the sum, or kept for it: clear the child's bit, and go on if none is missing."""
    flags = load_u8(address + FLAGS)
    slot.contributions += U64(load_be32(address + CONTRIBUTIONS))
    if flags & Flag.WANTS_RESULT:
        slot.wants |= bit_of(bit)
    note_group(job, slot, flags, bit)
    slot.node_missing &= ~bit_of(bit)
    trace(e, job, slot, Step.NODE_IN, bit)
    if slot.node_missing | slot.rank_missing == ZERO or job.node_left | job.rank_left != ZERO:
        proceed(e, job, slot)

"""Encapsulation: packets as SEND actions, each with a header record."""

from numba import int64

from fanin_nic.engine.output.action_table import append, take_row
from fanin_nic.engine.output.multicast_membership import is_group_member
from fanin_nic.engine.records.accessors import ONE, U64, ZERO, action_at, bit_of, count, header_at
from fanin_nic.engine.records.actions import ACTION, ActionKind
from fanin_nic.engine.records.tables import BODY_SIZE, ENGINE, FULL_BODIES, JOB, Ahead, Counter
from fanin_nic.engine.records.trace import SENT, trace
from fanin_nic.engine.slots.arithmetic import payload_bytes
from fanin_nic.engine.slots.contribution import is_one_with_data
from fanin_nic.engine.slots.zero_copy import data_address
from fanin_nic.native.compiled import internal, internal_for
from fanin_nic.native.memory import address_of, copy, fill_zero
from fanin_wire.abi import Route
from fanin_wire.fields import COLLECTIVE_QPN, DEFAULT_PKEY, HEADER, WIRE_VERSION, Flag, Opcode

HEADER_SIZE = U64(HEADER.itemsize)
ACTION_SIZE = U64(ACTION.itemsize)
SLOT_FLAGS = int(Flag.HAS_DATA) | int(Flag.WANTS_RESULT) | int(Flag.WIDE) | int(Flag.AHEAD)  # set anew for each packet


@internal
def note_sent(e, job, destination):
    """A packet to a neighbour defers its KEEPALIVE by an interval. (In a ring of two both neighbours are one.)"""
    if destination == job.parent_address:
        job.sent_above = e.now
    if destination == job.next_address:
        job.sent_next = e.now
    if destination == job.previous_address:
        job.sent_previous = e.now


@internal_for(ENGINE, JOB, int64, int64, returns=int64)
def packet(e, job, opcode, destination):
    """Number of a new SEND of a header-only packet of a job; the caller fills in the fields of its opcode."""
    index = append(e, ActionKind.SEND)
    action_at(e, index).destination = destination
    header = header_at(e, index)
    fill_zero(address_of(header), HEADER_SIZE)
    header.opcode = opcode
    header.pkey = DEFAULT_PKEY
    header.dqpn = COLLECTIVE_QPN
    header.ceth_version = WIRE_VERSION
    header.jid = job.jid
    header.key = job.key
    note_sent(e, job, destination)
    count(e, Counter.TX_FIRST + (opcode & 15))
    return index


@internal
def body_at(e, index):
    """Address of the memory for the body of a control packet."""
    return address_of(e) + e.body_offset + U64(index) * U64(BODY_SIZE)


@internal
def full_body_at(e, job, row):
    """Address of the memory for a body as long as the longest packet of a job, in one of its rows."""
    size = max(U64(e.max_chunk), U64(BODY_SIZE))
    return address_of(e) + e.full_body_offset + (U64(job.index) * U64(FULL_BODIES) + U64(row)) * size


@internal
def attach_payload(e, index, address, length):
    action = action_at(e, index)
    action.payload = address
    action.length = length
    header_at(e, index).length = length


@internal
def slot_packet(e, job, slot, opcode, destination):
    """Number of a new header-only SEND about a slot's position."""
    index = packet(e, job, opcode, destination)
    header = header_at(e, index)
    header.position = slot.position
    header.seg = U64(slot.position) & (U64(job.slots) - ONE)
    header.op = slot.op
    header.dtype = slot.dtype
    header.mid = slot.mid
    header.sid = slot.sid
    header.flags = slot.flags & ~SLOT_FLAGS
    header.status = slot.status
    header.contributions = slot.contributions
    return index


@internal
def attach_slot_payload(e, job, slot, index):
    """Attach a slot's data to a packet, unless the position is poisoned or has none."""
    if slot.flags & Flag.HAS_DATA and slot.status == 0:
        header_at(e, index).flags |= Flag.HAS_DATA | (slot.flags & Flag.WIDE)
        attach_payload(e, index, data_address(e, job, slot), payload_bytes(e, slot))


@internal
def send_contribution(e, job, slot):
    """Send the partial of a slot to the device above, or to the next node of the ring."""
    onward = job.route == Route.RING and slot.nodes & ~bit_of(job.node_index) != ZERO
    index = slot_packet(e, job, slot, Opcode.CONTRIBUTION, job.next_address if onward else job.parent_address)
    header = header_at(e, index)
    if onward:
        header.source = job.node_index
        header.node_bitmap = slot.nodes & ~bit_of(job.node_index)
        header.rank_bitmap = slot.wants
    else:
        header.source = job.parent_bit
        header.node_bitmap = bit_of(job.parent_bit)
        header.rank_bitmap = job.rank_mask
        if is_group_member(e, job):
            header.flags |= Flag.HEARS_GROUP
    if wants_data(job, slot):
        header.flags |= Flag.WANTS_RESULT
    trace(e, job, slot, SENT, 0)
    if not slot.ahead & Ahead.RECEIVED:  # data from above do not go up again
        attach_slot_payload(e, job, slot, index)
        if header.flags & Flag.HAS_DATA:
            header.flags |= slot.flags & Flag.AHEAD


@internal
def wants_data(job, slot):
    """Whether the result is wanted here or below and has not come."""
    return (slot.wants != ZERO or slot.flags & Flag.WANTS_RESULT) and not is_one_with_data(slot)


@internal
def send_result(e, job, slot, destination, source, node_bitmap, wanted):
    """Send the result of a slot to one device, with data if a device that it reaches (`wanted`) wants them, else as a
    header; returns the number of the SEND."""
    index = slot_packet(e, job, slot, Opcode.RESULT, destination)
    header = header_at(e, index)
    header.source = source
    header.node_bitmap = node_bitmap
    if wanted != ZERO:
        attach_slot_payload(e, job, slot, index)
    return index


@internal
def copy_result(e, job, first, destination, source, node_bitmap):
    """Send the RESULT of the SEND `first`, which must still be in the table, to another device."""
    index = take_row(e)
    action, header = action_at(e, index), header_at(e, index)
    copy(address_of(action), address_of(action_at(e, first)), ACTION_SIZE)
    copy(address_of(header), address_of(header_at(e, first)), HEADER_SIZE)
    action.destination = destination
    header.source = source
    header.node_bitmap = node_bitmap
    note_sent(e, job, destination)
    count(e, Counter.TX_FIRST + (Opcode.RESULT & 15))


@internal
def reply(e, job, header, opcode, destination):
    """Number of a new header-only answer to a packet about a position, with its position, seg, source and token."""
    index = packet(e, job, opcode, destination)
    answer = header_at(e, index)
    answer.position = header.position
    answer.seg = header.seg
    answer.mid = header.mid
    answer.sid = header.sid
    answer.source = header.source
    answer.token = header.token
    answer.node_bitmap = ZERO
    return index

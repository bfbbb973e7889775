"""What the engine asks its driver to do: packets, completions and notices, appended to the table of actions.

A result may go to all children as one packet, by a multicast group. The device sends invitations: a KEEPALIVE to its
group when a job begins, and each keep-alive interval. A child that gets one sets HEARS_GROUP in its CONTRIBUTIONs from
then on. A position whose contributions all have the flag gets one RESULT, to the group. If the network does not carry
the group to a child, it gets no invitation either, and each child gets its own results, as in all repairs. All devices
that listen receive the group's packets, also outside the job, so a result goes there only if most listeners want it.

A child joins with the first invitation and stays while more follow; a single loss does not matter. If several RESULTs
in a row prove lost, and none came by the group meanwhile, it leaves until another invitation comes. Each such time
doubles the number of invitations that it ignores first; each invitation without such a loss reduces it. Record 0025:
why a switch learns this from its children.
"""

from numba import int64, uint64

from fanin_nic.engine.records.accessors import (
    ONE,
    REQUEST_SCALARS,
    U32,
    U64,
    ZERO,
    action_at,
    bit_of,
    bytes_of,
    count,
    header_at,
    job_at,
    queue_at,
    request_at,
    request_index,
)
from fanin_nic.engine.records.actions import ACTION, ActionKind
from fanin_nic.engine.records.tables import BODY_SIZE, ENGINE, FULL_BODIES, JOB, Ahead, Counter
from fanin_nic.engine.records.trace import trace
from fanin_nic.engine.slots import data_address, is_one_with_data, payload_bytes
from fanin_nic.native.compiled import internal, internal_for
from fanin_nic.native.memory import address_of, copy, count_bits, fill_zero, lowest_bit
from fanin_wire.abi import Route, Status
from fanin_wire.fields import COLLECTIVE_QPN, DEFAULT_PKEY, HEADER, WIRE_VERSION, Flag, Opcode
from fanin_wire.status import NAMING_A_DEVICE
from fanin_wire.tap import Step

ACTION_SIZE = U64(ACTION.itemsize)
HEADER_SIZE = U64(HEADER.itemsize)
SLOT_FLAGS = int(Flag.HAS_DATA | Flag.WANTS_RESULT | Flag.WIDE | Flag.AHEAD)  # set anew for each packet
MAX_CONSECUTIVE_LOSSES = 4  # prove that the group does not reach this device
MAX_FAILURES = 6  # that count: 63 invitations are ignored
MISSED_INVITATIONS = 3  # in a row, after which the group is gone
MAX_RETIRED = 16


# Packets about a position


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
    trace(e, job, slot, Step.SENT, 0)
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


# Packets of a job


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
def note_sent(e, job, destination):
    """A packet to a neighbour defers its KEEPALIVE by an interval. (In a ring of two both neighbours are one.)"""
    if destination == job.parent_address:
        job.sent_above = e.now
    if destination == job.next_address:
        job.sent_next = e.now
    if destination == job.previous_address:
        job.sent_previous = e.now


@internal
def attach_payload(e, index, address, length):
    action = action_at(e, index)
    action.payload = address
    action.length = length
    header_at(e, index).length = length


@internal
def body_at(e, index):
    """Address of the memory for the body of a control packet."""
    return address_of(e) + e.body_offset + U64(index) * U64(BODY_SIZE)


@internal
def full_body_at(e, job, row):
    """Address of the memory for a body as long as the longest packet of a job, in one of its rows."""
    size = max(U64(e.max_chunk), U64(BODY_SIZE))
    return address_of(e) + e.full_body_offset + (U64(job.index) * U64(FULL_BODIES) + U64(row)) * size


# The group, on the device that sends to it


@internal
def invite(e, job):
    """A KEEPALIVE to the group."""
    job.invited_at = e.now
    header = header_at(e, packet(e, job, Opcode.KEEPALIVE, e.group))
    header.source = lowest_bit(job.node_mask)
    header.node_bitmap = job.node_mask


@internal
def may_invite(e, job):
    """Whether the group could serve the job: it has at least two children, who are most of the listeners."""
    if e.group == 0 or job.route == Route.RING or job.node_mask & (job.node_mask - ONE) == ZERO:
        return False
    return is_majority(e, count_bits(job.node_mask))


@internal
def is_majority(e, listeners):
    """Whether `listeners` are more than half of the group."""
    return U64(2) * listeners > U64(e.group_size)


@internal
def note_group(job, slot, flags, bit):
    """Note whether the flags of a contribution say that its child hears the group."""
    if flags & Flag.HEARS_GROUP:
        slot.group_members |= bit_of(bit)
        job.hears_group |= bit_of(bit)
    else:
        job.hears_group &= ~bit_of(bit)


@internal
def goes_to_group(e, job, slot):
    """Whether one RESULT to the group serves all children: each receives the group, and most want the data, if any."""
    if not may_invite(e, job) or slot.group_members != job.node_mask:
        return False
    if slot.wants == ZERO or slot.status != 0 or not slot.flags & Flag.HAS_DATA or slot.ahead & Ahead.SENT:
        return True
    wanting = count_bits(slot.wants)
    return is_majority(e, wanting) and U64(2) * wanting > count_bits(job.node_mask)


@internal
def serves_by_group(e, job, children):
    """Whether one packet to the group reaches all children of a bitmap, and is better than one to each."""
    if not may_invite(e, job) or children & ~job.hears_group != ZERO or children & (children - ONE) == ZERO:
        return False
    return is_majority(e, count_bits(children))


# The group, on a device that hears it


@internal
def is_group_member(e, job):
    """Whether results of the device above may come by its group."""
    return job.group_member != 0 and e.now - job.invitation_at <= e.keepalive * MISSED_INVITATIONS


@internal
def on_invitation(e, job, header):
    """Event: an invitation, the KEEPALIVE of the device above to its group."""
    if header.node_bitmap & bit_of(job.parent_bit) == ZERO:
        return
    job.invitation_at = e.now
    if job.invitations_ignored:
        job.invitations_ignored -= 1
        return
    if job.group_member:
        job.group_failures = max(job.group_failures, 1) - 1
    else:
        job.group_member = 1
        job.last_result_by_group = 1  # until a RESULT shows otherwise
        job.consecutive_losses = 0


@internal
def note_result_path(job, header):
    """Note whether a RESULT that was not probed for came by the group."""
    job.last_result_by_group = 1 if header.node_bitmap & ~bit_of(job.parent_bit) != ZERO else 0
    job.consecutive_losses = 0


@internal
def note_group_loss(job):
    """A RESULT has proved lost; leave the group after several in a row."""
    if not job.group_member or not job.last_result_by_group:
        return
    job.consecutive_losses += 1
    if job.consecutive_losses == MAX_CONSECUTIVE_LOSSES:
        job.group_member = 0
        job.group_failures = min(job.group_failures + 1, MAX_FAILURES)
        job.invitations_ignored = (1 << job.group_failures) - 1


# Completions and notices


@internal
def retire(e, queue_index):
    """Complete the oldest requests of a queue that are done, a few in one call; returns how many. `serve` goes on."""
    queue = queue_at(e, queue_index)
    for retired in range(MAX_RETIRED):
        if queue.head == queue.tail:
            return retired
        request = request_at(e, request_index(e, queue_index, queue.head))
        if request.done != request.count:
            return retired
        if queue.head == queue.read:  # a request without positions is never read
            queue.read += 1
        complete_request(e, queue_index, request, request.status, 0, U64(0))
        queue.head += 1
    return MAX_RETIRED


@internal
def flush(e, queue_index, status, missing_kind, missing, budget):
    """Complete up to `budget` requests of a queue with a status; returns whether none is left."""
    queue = queue_at(e, queue_index)
    for _ in range(budget):
        if queue.head == queue.tail:
            break
        request = request_at(e, request_index(e, queue_index, queue.head))
        complete_request(e, queue_index, request, status, missing_kind, missing)
        queue.head += 1
    if queue.head == queue.tail:
        queue.read = queue.tail
        queue.read_segments = 0
        return True
    return False


@internal_for(ENGINE, int64, REQUEST_SCALARS, int64, int64, uint64)
def complete_request(e, queue_index, request, status, missing_kind, missing):
    """A request that is not signaled has a completion only if it failed."""
    if status == 0 and not request.signaled:
        return
    queue = queue_at(e, queue_index)
    action = action_at(e, append(e, ActionKind.COMPLETE))
    action.queue = queue_index
    action.count = queue.qp
    action.status = status
    action.opcode = request.opcode
    action.wr_id = request.wr_id
    action.mid = request.mid
    action.missing_kind = missing_kind
    action.missing = missing
    action.position = request.done
    action.byte_length = bytes_of(request, request.count) if status == 0 else U64(0)
    if queue.job:
        action.jid = job_at(e, queue.job - 1).jid
    if queue.job and status in NAMING_A_DEVICE:
        action.lost_device = job_at(e, queue.job - 1).lost_device
    count(e, Counter.COMPLETIONS)


@internal_for(ENGINE, int64, int64, int64, int64, uint64)
def notice(e, queue_index, message_type, status, missing_kind, missing):
    """Answer the JOIN or LEAVE that a queue waits for."""
    queue = queue_at(e, queue_index)
    action = action_at(e, append(e, ActionKind.NOTICE))
    action.queue = queue_index
    action.opcode = message_type
    action.status = status
    action.wr_id = queue.tag
    action.missing_kind = missing_kind
    action.missing = missing
    if queue.job:
        job = job_at(e, queue.job - 1)
        action.jid = job.jid
        action.byte_length = notice_slots(job, status)
        action.window = job.window
        action.length = job.chunk


@internal
def notice_slots(job, status):
    """`byte_length` of a notice: the leased slots, those that would fit, a peer's version, or the lost device."""
    if status == 0:
        return job.slots
    if status in NAMING_A_DEVICE:
        return job.lost_device
    return U32(job.peer_version) if status == Status.VERSION_MISMATCH else job.offered_slots


# The table of actions


@internal_for(ENGINE, int64, returns=int64)
def append(e, kind):
    """Number of a new, zeroed action."""
    index = take_row(e)
    action = action_at(e, index)
    fill_zero(address_of(action), ACTION_SIZE)
    action.kind = kind
    return int64(index)


@internal
def take_row(e):
    """Number of a new action. A full table drops it and counts: the driver leaves room before each event."""
    if e.action_count == e.actions:
        count(e, Counter.ACTION_OVERFLOW)
        e.action_count -= 1
    e.action_count += 1
    return U64(e.action_count) - ONE

"""The network: packets between devices, and the faults that happen to them, by a hash of the seed."""

from numba import int64, uint64

from fanin_nic.native.memory import address_of, copy, load_be32, load_u8, load_u32, store_u8, store_u32
from fanin_nic.transport.records.accessors import action_at, transport_at
from fanin_nic.transport.records.actions import ACTION
from fanin_sim.jit import internal
from fanin_sim.kernel import event_queue
from fanin_sim.kernel.event_queue import LATENCY, RATE_SCALE, draw, draw_below
from fanin_sim.kernel.packets import data_of, flip, release, take
from fanin_sim.kernel.tables import UNKNOWN_DESTINATION, PacketFate, packet_row
from fanin_sim.kernel.trace import add_line, report_violation
from fanin_sim.rdma.codes import EventKind, FaultKind
from fanin_sim.rdma.tables import COUNTERS, device_row
from fanin_wire.fields import BTH
from fanin_wire.rocev2 import CODES

ACKNOWLEDGE, ATOMIC_ACKNOWLEDGE = CODES["RC_ACKNOWLEDGE"], CODES["RC_ATOMIC_ACKNOWLEDGE"]
READ_RESPONSE = CODES["RC_RDMA_READ_RESPONSE_FIRST"]  # the first of the opcodes that answer
NO_VALUE = -1  # the fault does not happen
HEADER = uint64(ACTION.fields["header"][1])  # type: ignore[index]
MIN_LATENCY, SPREAD = 2_000, 3_000  # ns: latency of a link
MAX_REORDERING = 100_000  # ns
MAX_DELAY = 20_000_000  # ns: several time-outs
QPN, PSN = uint64(BTH.byte_offset("dqpn") - 1), uint64(BTH.byte_offset("psn") - 1)  # in the low 24 bits of these words
LOW_24 = (1 << 24) - 1


@internal
def send(w, source, index):
    """The SEND action `index` of a device, with the PIECEs after it."""
    t = transport_at(device_row(w.devices, source).base)
    target = device_of(w, int64(action_at(t, uint64(index)).destination))
    if target < 0:
        report_violation(w, UNKNOWN_DESTINATION, source, index)
        return
    number = take(w, source, target)
    if number >= 0:
        packet = packet_row(w.packets, number)
        packet.destination = device_row(w.devices, target).address
        packet.length = build(t, index, data_of(w, number))
        packet.opcode = load_u8(data_of(w, number))
        packet.qpn = int64(load_be32(data_of(w, number) + QPN)) & LOW_24
        packet.psn = int64(load_be32(data_of(w, number) + PSN)) & LOW_24
        transmit(w, number, packet)


@internal
def device_of(w, address):
    """The device that has an address; -1 if none has."""
    for index in range(w.device_count):
        if device_row(w.devices, index).address == address:
            return index
    return -1


@internal
def build(t, index, place):
    """Put a packet together at an address: headers, pieces, padding. Returns its length."""
    action = action_at(t, uint64(index))
    length, pieces = int64(action.header_length), int64(action.pieces)
    copy(place, address_of(action) + HEADER, uint64(length))
    for number in range(pieces):
        piece = action_at(t, uint64(index + number))
        copy(place + uint64(length), piece.payload, uint64(piece.length))
        length += int64(piece.length)
    while length & 3:
        store_u8(place + uint64(length), 0)
        length += 1
    return length


@internal
def transmit(w, number, packet):
    """A packet enters its link. Decides which faults happen to it."""
    link = link_of(w, int64(packet.source), int64(packet.target))
    ordinal = next_ordinal(w, link)
    if removal_value(w, FaultKind.LOSS, packet, link, ordinal) >= 0:
        trace_packet(w, packet, PacketFate.LOST, 0)
        release(w, number)
        return
    fate = corrupt(w, number, packet, link, ordinal)
    if fate == PacketFate.CORRUPTED:
        trace_packet(w, packet, PacketFate.CORRUPTED, 0)
        release(w, number)
        return
    late = removal_value(w, FaultKind.DELAY, packet, link, ordinal)
    if late >= 0:
        late = late % MAX_DELAY
    else:
        reset_removals(w, packet)
        late = fault_value(w, FaultKind.REORDERING, link, ordinal)
        late = late % MAX_REORDERING if late >= 0 else 0
    arrival = w.now + MIN_LATENCY + draw_below(w.seed, LATENCY, link, 0, SPREAD) + late
    trace_packet(w, packet, fate, arrival)
    event_queue.put(w, arrival, EventKind.PACKET, int64(packet.target), number, 0)
    repeated = fault_value(w, FaultKind.DUPLICATION, link, ordinal)
    if repeated >= 0:
        packet.copies += 1
        span = MAX_REORDERING if repeated & 3 else MAX_DELAY
        event_queue.put(w, arrival + (repeated >> 2) % span, EventKind.PACKET, int64(packet.target), number, 0)


@internal
def corrupt(w, number, packet, link, ordinal):
    """Flip a bit, if this fault happens. The ICRC decides whether the receiver notices. Returns the packet's fate."""
    value = removal_value(w, FaultKind.CORRUPTION, packet, link, ordinal)
    if value < 0:
        return PacketFate.ARRIVES
    shows = flip(w, number, device_row(w.devices, packet.source).address, value)
    return PacketFate.CORRUPTED if shows and w.checks_icrc else PacketFate.CORRUPTED_UNDETECTED


@internal
def trace_packet(w, packet, fate, arrival):
    add_line(
        w,
        EventKind.SENT,
        int64(packet.source),
        int64(packet.target),
        int64(packet.opcode),
        int64(packet.psn),
        fate,
        arrival,
        0,
    )


@internal
def link_of(w, source, target):
    return source * w.device_count + target


@internal
def next_ordinal(w, link):
    """How many packets a link has carried, before this one."""
    place = w.sent + uint64(4 * link)
    ordinal = int64(load_u32(place))
    store_u32(place, ordinal + 1)
    return ordinal


@internal
def fault_value(w, kind, place, ordinal):
    """Value of a fault, a random number of at least 0; NO_VALUE if it does not happen."""
    if w.rate[kind] == 0 or w.budget <= 0:
        return NO_VALUE
    drawn = draw(w.seed, kind, place, ordinal)
    if drawn % RATE_SCALE >= w.rate[kind]:
        return NO_VALUE
    w.budget -= 1
    note_fault(w, kind, place)
    return drawn // RATE_SCALE


@internal
def removal_value(w, kind, packet, link, ordinal):
    """As `fault_value`, for a fault that delays or loses a packet. A request arrives at the latest at the third time,
    its answer at the second, so seven retries suffice."""
    place = place_of_removals(w, packet)
    limit = 1 if is_response(packet) else w.most_in_a_row
    if int64(load_u32(place)) >= limit:
        return NO_VALUE
    value = fault_value(w, kind, link, ordinal)
    if value != NO_VALUE:
        store_u32(place, load_u32(place) + 1)
    return value


@internal
def reset_removals(w, packet):
    store_u32(place_of_removals(w, packet), 0)


@internal
def place_of_removals(w, packet):
    """Address of the counter of a packet's failures in a row. A packet that is sent again has the same PSN; a repeated
    acknowledgement may have another one."""
    psn = 0 if packet.opcode == ACKNOWLEDGE else 1 + int64(packet.psn)
    key = int64(packet.qpn) * 74 + 2 * psn + (1 if is_response(packet) else 0)
    link = link_of(w, int64(packet.source), int64(packet.target))
    return w.removed_in_a_row + uint64(4 * (link * COUNTERS + key % COUNTERS))


@internal
def is_response(packet):
    """Whether a packet answers a request, as READs, atomics and acknowledgements do. It has the PSN of its request,
    which a request in the other direction may have as well."""
    return READ_RESPONSE <= packet.opcode <= ATOMIC_ACKNOWLEDGE


@internal
def note_fault(w, kind, place):
    """Count a fault, and note it in the trace."""
    w.happened[kind] += 1
    add_line(w, EventKind.FAULT_APPLIED, place, 0, 0, 0, kind, 0, 0)

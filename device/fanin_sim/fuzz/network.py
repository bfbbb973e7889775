"""Packets between devices. A link has its own latency and keeps the order of its packets, unless a fault happens."""

from numba import int64, uint64

from fanin_nic.engine.records.accessors import action_at, header_at
from fanin_sim.fabric.action_executor import build_packet
from fanin_sim.fuzz.codes import EventKind, FaultKind
from fanin_sim.fuzz.faults import (
    MICROSECOND,
    MILLISECOND,
    fault_value,
    next_ordinal,
    number_of_link,
    record_fault,
    removal_value,
    reset_removals,
)
from fanin_sim.fuzz.tables import vertex_row
from fanin_sim.jit import internal
from fanin_sim.kernel import event_queue
from fanin_sim.kernel.event_queue import LATENCY, draw_below
from fanin_sim.kernel.packets import data_of, flip, release, take
from fanin_sim.kernel.tables import UNKNOWN_DESTINATION, PacketFate, packet_row
from fanin_sim.kernel.trace import add_line, report_violation

MIN_LATENCY, SPREAD = 5 * MICROSECOND, 20 * MICROSECOND  # latency of a link
MAX_REORDERING = 200 * MICROSECOND  # of a reordered packet
MAX_DELAY = 300 * MILLISECOND  # of a delayed packet; longer than the first time-out


@internal
def vertex_of(w, address):
    """The device that has an address; -1 if none has."""
    for index in range(w.vertex_count):
        if vertex_row(w.vertices, index).address == address:
            return index
    return -1


@internal
def is_link_down(w, one, other):
    a, b = vertex_row(w.vertices, one), vertex_row(w.vertices, other)
    if a.links_down_until > w.now and (a.link_down_peer < 0 or a.link_down_peer == other):
        return True
    return b.links_down_until > w.now and (b.link_down_peer < 0 or b.link_down_peer == one)


@internal
def send(w, source, e, index):
    """A SEND action of a device, to another device or to all members of its group."""
    sender, destination = vertex_row(w.vertices, source), int64(action_at(e, index).destination)
    if sender.group == 0 or destination != sender.group:
        send_to(w, source, e, index, vertex_of(w, destination))
        return
    for target in range(w.vertex_count):
        if sender.group_members >> uint64(target) & uint64(1):
            send_to(w, source, e, index, target)


@internal
def send_to(w, source, e, index, target):
    if target < 0 and w.accepts_corruption:  # the address comes from a corrupted CONFIG
        return
    if target < 0:
        report_violation(w, UNKNOWN_DESTINATION, source, int64(action_at(e, index).destination))
        return
    number = take(w, source, target)
    if number < 0:
        return
    packet = packet_row(w.packets, number)
    packet.destination = action_at(e, index).destination
    packet.length = build_packet(e, index, data_of(w, number))
    packet.opcode = header_at(e, index).opcode & 15
    packet.position = header_at(e, index).position
    link = number_of_link(w, source, target)
    transmit(w, number, packet, next_ordinal(w, link, packet.opcode))


@internal
def transmit(w, number, packet, ordinal):
    """A packet enters its link. Decides which faults happen to it."""
    if is_link_down(w, packet.source, packet.target):
        trace_packet(w, packet, ordinal, PacketFate.LINK_DOWN, 0)
        release(w, number)
        return
    value = removal_value(w, FaultKind.LOSS, packet.source, packet.target, packet.opcode, ordinal)
    if value >= 0:
        trace_packet(w, packet, ordinal, PacketFate.LOST, 0)
        record_fault(w, FaultKind.LOSS, packet.source, packet.target, packet.opcode, ordinal, value, w.now)
        release(w, number)
        return
    fate = corrupt(w, number, packet, ordinal)
    if fate == PacketFate.CORRUPTED:
        trace_packet(w, packet, ordinal, PacketFate.CORRUPTED, 0)
        release(w, number)
        return
    reset_removals(w, packet.source, packet.target, packet.opcode)
    arrival = w.now + latency(w, packet) + extra_delay(w, packet, ordinal)
    trace_packet(w, packet, ordinal, fate, arrival)
    event_queue.put(w, arrival, EventKind.PACKET, packet.target, number, 0)
    duplicate(w, number, packet, ordinal, fate)


@internal
def duplicate(w, number, packet, ordinal, fate):
    """Lets a packet arrive twice, if this fault happens to it."""
    value = fault_value(w, FaultKind.DUPLICATION, packet.source, packet.target, packet.opcode, ordinal)
    if value >= 0:
        packet.copies += 1
        again = w.now + latency(w, packet) + copy_delay(value)
        trace_packet(w, packet, ordinal, fate, again)
        record_fault(w, FaultKind.DUPLICATION, packet.source, packet.target, packet.opcode, ordinal, value, again)
        event_queue.put(w, again, EventKind.PACKET, packet.target, number, 0)


@internal
def trace_packet(w, packet, ordinal, fate, arrival):
    add_line(w, EventKind.SENT, packet.source, packet.target, packet.opcode, packet.position, fate, arrival, ordinal)


@internal
def latency(w, packet):
    """The latency of a packet's link, in ns."""
    link = number_of_link(w, packet.source, packet.target)
    return MIN_LATENCY + draw_below(w.seed, LATENCY, link, 0, SPREAD)


@internal
def copy_delay(value):
    """The delay of a duplicate, in ns: mostly short, at times long."""
    return (value >> 2) % (MAX_REORDERING if value & 3 else MAX_DELAY)


@internal
def extra_delay(w, packet, ordinal):
    """The delay that faults add to a packet, in ns."""
    late = 0
    value = fault_value(w, FaultKind.REORDERING, packet.source, packet.target, packet.opcode, ordinal)
    if value >= 0:
        late = value % MAX_REORDERING
        record_fault(w, FaultKind.REORDERING, packet.source, packet.target, packet.opcode, ordinal, value, w.now + late)
    value = fault_value(w, FaultKind.DELAY, packet.source, packet.target, packet.opcode, ordinal)
    if value >= 0:
        late += value % MAX_DELAY
        record_fault(w, FaultKind.DELAY, packet.source, packet.target, packet.opcode, ordinal, value, w.now + late)
    return late


@internal
def corrupt(w, number, packet, ordinal):
    """Flips a bit, if this fault happens. The ICRC decides whether the receiver notices. Returns the packet's fate."""
    value = removal_value(w, FaultKind.CORRUPTION, packet.source, packet.target, packet.opcode, ordinal)
    if value < 0:
        return PacketFate.ARRIVES
    shows = flip(w, number, vertex_row(w.vertices, packet.source).address, value)
    record_fault(w, FaultKind.CORRUPTION, packet.source, packet.target, packet.opcode, ordinal, value, w.now)
    if shows and w.checks_icrc:
        w.dropped += 1
        return PacketFate.CORRUPTED
    w.undetected += 1 if shows else 0
    return PacketFate.CORRUPTED_UNDETECTED

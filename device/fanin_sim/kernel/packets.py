"""Packets under way: their memory, their copies, and the bit that a fault flips."""

from numba import int64, uint64

from fanin_nic.native.memory import address_of, fill_zero, load_u8, load_u32, store_u8, store_u32
from fanin_nic.port.icrc import contiguous_icrc
from fanin_sim.jit import internal
from fanin_sim.kernel.tables import LIVELOCK, packet_row
from fanin_sim.kernel.trace import report_violation

SOURCE_PORT = 0xC000


@internal
def clear(w, outcome, size, counters):
    """Zeroes the outcome (`size` bytes of WORLD from byte `outcome` on), the queue and the packets. counters: of
    packets sent, and of those removed in a row."""
    fill_zero(address_of(w) + outcome, size)
    w.order = 0
    w.queue_size = 0
    fill_zero(w.sent, uint64(4 * counters[0]))
    fill_zero(w.removed_in_a_row, uint64(4 * counters[1]))
    w.free_count = w.packet_room
    for number in range(w.packet_room):
        store_u32(w.free + uint64(4 * number), number)


@internal
def data_of(w, number):
    return w.packet_bytes + uint64(number * w.packet_stride)


@internal
def take(w, source, target):
    """The number of an unused packet, from one device to another; -1 if there is none, which is a livelock."""
    if w.free_count == 0:
        report_violation(w, LIVELOCK, source, 0)
        return -1
    w.free_count -= 1
    number = int64(load_u32(w.free + uint64(4 * w.free_count)))
    packet = packet_row(w.packets, number)
    packet.source = source
    packet.target = target
    packet.copies = 1
    return number


@internal
def release(w, number):
    packet = packet_row(w.packets, number)
    packet.copies -= 1
    if packet.copies <= 0:
        store_u32(w.free + uint64(4 * w.free_count), number)
        w.free_count += 1


@internal
def icrc_of(w, number, source):
    """ICRC of a packet from an address, computed as the port does."""
    packet = packet_row(w.packets, number)
    return contiguous_icrc(source, packet.destination, SOURCE_PORT, data_of(w, number), int64(packet.length), 0)


@internal
def flip(w, number, source, value):
    """Flips a bit of a packet from an address. Returns whether the ICRC, which does not cover all bits, shows it."""
    packet = packet_row(w.packets, number)
    right = icrc_of(w, number, source)
    bit = value % int64(packet.length * 8)
    place = data_of(w, number) + uint64(bit >> 3)
    store_u8(place, load_u8(place) ^ (1 << (bit & 7)))
    return icrc_of(w, number, source) != right

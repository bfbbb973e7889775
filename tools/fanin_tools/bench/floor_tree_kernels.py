"""Compiled parts of the floor over hosts: a NIC and a switch that send and receive super-packets.

Memory holds a message as packets of PACKET bytes, of which the last may be shorter. A packet has headers with the
number of the segment, the payload, and room for an ICRC, so that a super-packet is one write and one read. At most
WINDOW bytes are on their way from a NIC, so that they stay in the caches. A device that `checks` receives into a
buffer, computes a CRC of each packet that it sends or receives, and copies the results out of the buffer.
"""

from __future__ import annotations

from errno import EAGAIN, EINTR

from numba import int32, int64, uint32, uint64

from fanin_nic.native.compiled import compiled
from fanin_nic.native.libc import errno, read, sched_yield, write
from fanin_nic.native.memory import call_kernel, copy, load_u32
from fanin_nic.port.crc import START, crc_update
from fanin_tools.bench.floor_kernels import await_word, is_ready, tell
from fanin_wire.fields import ICRC_SIZE, TRANSPORT_SIZE, super_packet_segments

PAYLOAD = 4096  # bytes of a whole packet
PACKET = uint64(TRANSPORT_SIZE + PAYLOAD + ICRC_SIZE)
SEGMENTS = super_packet_segments(PAYLOAD)
SUPER_PACKET = uint64(SEGMENTS) * PACKET
WINDOW = uint64(8) * SUPER_PACKET  # bytes
BUFFER = 1 << 16  # bytes: no datagram is longer
HEADERS, TAIL = uint64(TRANSPORT_SIZE), uint64(ICRC_SIZE)


@compiled
def run_nic(
    begun,
    done,
    sleeping_flag,
    rank_sleeping_flag,
    event,
    rank_event,
    receiver,
    sender,
    yields,
    rounds,
    memory,
    size,
    checks,
):
    """In each round send `size` bytes of packets up and receive as many. Returns False after a timeout, and a CRC.

    memory: addresses of the rank's data and result, and of a buffer.
    """
    data, result, buffer = memory
    total = uint32(0)
    for number in range(1, rounds + 1):
        if not await_word(begun, number, sleeping_flag, event, yields):
            return False, total
        sent, place = uint64(0), uint64(0)
        while place < size:
            while sent < min(size, place + WINDOW):
                length = min(SUPER_PACKET, size - sent)
                if checks:
                    total ^= checksums(data + sent, length)
                if not send(sender, data + sent, length):
                    return False, total
                sent += length
            taken = take(receiver, buffer if checks else result + place, yields)
            if taken < 0:
                return False, total
            if checks:
                total ^= checksums(buffer, uint64(taken))
                copy_packets(result + place, buffer, uint64(taken))
            place += uint64(taken)
        tell(done, number, rank_sleeping_flag, rank_event)
    return True, total


@compiled
def run_switch(receiver, senders, yields, rounds, children, memory, counts, size, kernel, checks):
    """Add the packets of all children, and send each super-packet of sums as soon as it is complete.

    memory: addresses of a buffer and of room for `size` bytes of packets; counts: 0 for each packet; kernel: address of
    a C function that adds. Returns False after a timeout, and a CRC.
    """
    buffer, sums = memory
    left, total = uint64(rounds) * size, uint32(0)
    while left:
        length = take(receiver, buffer, yields)
        if length < 0:
            return False, total
        if checks:
            total ^= checksums(buffer, uint64(length))
        add_packets(sums, buffer, uint64(length), counts, kernel)
        first = int64(load_u32(buffer)) // SEGMENTS * SEGMENTS
        start = uint64(first) * PACKET
        whole = min(SUPER_PACKET, size - start)
        if is_complete(counts[first : first + SEGMENTS], children, whole):
            if checks:
                total ^= checksums(sums + start, whole)
            for index in range(senders.size):
                if not send(senders[index], sums + start, whole):
                    return False, total
            left -= whole
    return True, total


@compiled
def is_complete(counts, children, size):
    """Whether all children have sent each packet of a super-packet of `size` bytes. If so, resets the counts."""
    packets = int64((size + PACKET - uint64(1)) // PACKET)
    for index in range(packets):
        if counts[index] != children:
            return False
    counts[:packets] = 0
    return True


@compiled
def add_packets(sums, packets, size, counts, kernel):
    """Add the payloads of packets to the sums of the same numbers. The first payload of each number is copied."""
    place = uint64(0)
    while place < size:
        number, length = int64(load_u32(packets + place)), min(PACKET, size - place)
        target = sums + uint64(number) * PACKET
        if counts[number]:
            elements = int64(length - HEADERS - TAIL) // 4
            call_kernel(kernel, target + HEADERS, packets + place + HEADERS, elements)
        else:
            copy(target, packets + place, length)
        counts[number] += 1
        place += length


@compiled
def copy_packets(target, source, size):
    """Copy packets one by one, as a device copies segments."""
    place = uint64(0)
    while place < size:
        copy(target + place, source + place, min(PACKET, size - place))
        place += PACKET


@compiled
def checksums(packets, size):
    """The exclusive or of the CRCs of all packets, so that the compiler can leave none out."""
    total, place = uint32(0), uint64(0)
    while place < size:
        total ^= crc_update(uint32(START), packets + place, min(PACKET, size - place))
        place += PACKET
    return total


@compiled
def send(sender, packets, length):
    """Send a super-packet; try again while the socket has no room for it. Returns False after any other error."""
    while write(int32(sender), packets, length) < 0:
        if errno() not in (EAGAIN, EINTR):
            return False
        sched_yield()
    return True


@compiled
def take(receiver, target, yields):
    """Receive the next datagram and return its length; -1 after a timeout."""
    idle = 0
    while True:
        length = read(int32(receiver), target, uint64(BUFFER))
        if length >= 0:
            return length
        if idle < yields:
            idle += 1
            sched_yield()
        elif not is_ready(receiver):
            return int64(-1)

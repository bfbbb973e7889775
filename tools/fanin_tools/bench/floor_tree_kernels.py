"""Compiled parts of a NIC and a switch of the floor: messages as the super-packets that they are on the wire.

Memory holds a message as packets of PACKET bytes, of which the last may be shorter: headers, of which only the number
of the segment is filled in, payload, and room for an ICRC. So a super-packet is one write, and one read. No more than
WINDOW bytes are on their way from a NIC, so that they stay in the caches. A device that `checks` does what one has to
that can not know beforehand what comes: it receives into a buffer, takes a CRC of each packet that it sends or
receives, and copies the results out of it.
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
    """For each round of the rank its `size` bytes of packets up, and as many down. memory: addresses of the rank's data
    and result, and of a buffer. False if somebody does not answer any more; and a CRC."""
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
    """The sum of the packets of all children, to every sender as soon as a super-packet of it is whole. memory:
    addresses of a buffer and of room for `size` bytes of packets; counts: 0 for each of these; kernel: address of a C
    function that adds."""
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
    """Whether all children have brought each packet of a super-packet of `size` bytes; then their counts begin anew."""
    packets = int64((size + PACKET - uint64(1)) // PACKET)
    for index in range(packets):
        if counts[index] != children:
            return False
    counts[:packets] = 0
    return True


@compiled
def add_packets(sums, packets, size, counts, kernel):
    """Add the payloads of packets to those of the same numbers; the first of each is copied."""
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
    """One after the other, as segments are."""
    place = uint64(0)
    while place < size:
        copy(target + place, source + place, min(PACKET, size - place))
        place += PACKET


@compiled
def checksums(packets, size):
    """The CRCs of all packets; together, so that none can be left out."""
    total, place = uint32(0), uint64(0)
    while place < size:
        total ^= crc_update(uint32(START), packets + place, min(PACKET, size - place))
        place += PACKET
    return total


@compiled
def send(sender, packets, length):
    """A super-packet, again as long as the socket has no room for it; False if it can not be sent at all."""
    while write(int32(sender), packets, length) < 0:
        if errno() not in (EAGAIN, EINTR):
            return False
        sched_yield()
    return True


@compiled
def take(receiver, target, yields):
    """The length of the next datagram; -1 if none comes."""
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

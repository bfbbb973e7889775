"""Ordinary traffic of a port: frames out, and the IP identification of received packets."""

import ipaddress
import socket
import struct
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
from numba import uint64

from fanin_nic.native.compiled import compiled
from fanin_nic.native.memory import copy, record_at
from fanin_nic.port.descriptors import FRAMES_BYTES, PORT
from fanin_nic.port.ordinary import close_frame, drop_frame, flush_frames, open_frame, other_identification

UDP_SEGMENT = 103
IDENTIFICATIONS = (0, 1, 63, 64, 255, 256, 0x8001, 0xFFFF)
port_at = record_at(PORT)


@compiled
def send_frames(state, destination, packets, sizes, count, dropped):
    """Send consecutive packets, except those in the bitmap `dropped`. Returns how many the kernel took at the end."""
    port, place = port_at(uint64(state)), uint64(packets)
    for index in range(count):
        size = sizes[index]
        frame = open_frame(port, destination, size)
        if frame and dropped >> index & 1:
            drop_frame(port)
        elif frame:
            copy(frame, place, uint64(size))
            close_frame(port)
        place += uint64(size)
    return flush_frames(port)


def send(port, destination: str, packets: list[bytes], dropped: int = 0) -> int:
    """Send packets without ICRC, except those in the bitmap `dropped`. Returns the size of the last batch."""
    data = np.frombuffer(b"".join(packets), np.uint8)
    sizes = np.array([len(packet) for packet in packets])
    address = int(ipaddress.IPv4Address(destination))
    return send_frames(int(port.state), address, data.ctypes.data, sizes, len(packets), dropped)


def packet(rocev2: SimpleNamespace, length: int, number: int = 0) -> bytes:
    return rocev2.bth(0x04, dqpn=number) + bytes((number + k) % 256 for k in range(length))


@pytest.mark.parametrize(
    "lengths",
    [
        [0],
        [4],
        [1024] * 3,
        [1024] * 200,
        [4096] * 100,
        [8, 1024, 1024, 1024, 8, 8, 4, 0, 0],
        [1024, 256, 1024] * 30,
        [1024] * 62 + [1012],
    ],
    ids=str,
)
def test_what_is_sent_arrives_in_order(open_port, rocev2, traffic, lengths):
    """With right ICRCs, in any super-packets."""
    one, other = open_port(), open_port()
    packets = [packet(rocev2, length, number) for number, length in enumerate(lengths)]
    assert send(one, other.address, packets) > 0
    assert [arrival.content for arrival in traffic.take(other, len(packets))] == packets
    assert not +Counter(other.drops())
    assert not +Counter(one.drops())
    counters = one.peers()[other.address]
    assert (counters["tx_packets"], counters["tx_payload_bytes"]) == (len(packets), sum(lengths))
    assert counters["tx_bytes"] == sum(len(content) + 28 + 4 for content in packets)


def test_more_than_the_frames_hold(open_port, rocev2, traffic):
    one, other = open_port(), open_port()
    packets = [packet(rocev2, 4096, number) for number in range(3 * FRAMES_BYTES // 4096)]
    send(one, other.address, packets)
    assert [arrival.content for arrival in traffic.take(other, len(packets))] == packets


@pytest.mark.parametrize("dropped", [0b1, 0b10, 0b100, 0b1001, 0b1111])
def test_a_packet_that_is_given_up(open_port, rocev2, traffic, dropped):
    """No empty datagram and no gap remain."""
    one, other = open_port(), open_port()
    packets = [packet(rocev2, length, number) for number, length in enumerate((1024, 1024, 1024, 256))]
    kept = [content for number, content in enumerate(packets) if not dropped >> number & 1]
    send(one, other.address, packets, dropped)
    send(one, other.address, [packet(rocev2, 8, 9)])
    assert [arrival.content for arrival in traffic.take(other, len(kept) + 1)] == [*kept, packet(rocev2, 8, 9)]
    assert not +Counter(other.drops())
    assert one.peers()[other.address]["tx_packets"] == len(kept) + 1


def test_a_packet_longer_than_the_path_is_dropped(open_port, rocev2, traffic):
    one, other = open_port(mtu=1500), open_port()
    longest = 1500 - 28 - 12 - 4
    send(one, other.address, [packet(rocev2, longest + 4), packet(rocev2, longest)])
    assert [arrival.content for arrival in traffic.take(other, 1)] == [packet(rocev2, longest)]
    assert +Counter(one.drops()) == Counter(drop_too_long=1)


@pytest.fixture
def stranger(addresses):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as opened:
        opened.bind((next(addresses), 0))
        yield opened


def identity(rocev2: SimpleNamespace, stranger: socket.socket, port, covered: bytes, sealed: bytes) -> int:
    """The identification of a packet, computed from its ICRC."""
    source, source_port = stranger.getsockname()
    other = 0x1234
    computed = rocev2.icrc_of(source, port.address, source_port, covered, other)
    difference = int.from_bytes(computed, "little") ^ int.from_bytes(sealed[-4:], "little")
    return int(other_identification(difference, other, len(covered)))


@pytest.mark.parametrize("length", [0, 4, 1000, 8960])
def test_a_packet_may_have_any_identification(open_port, rocev2, traffic, stranger, length):
    """A super-packet may come in parts, or joined with others, and other devices have their own numbers: then the place
    of a packet is not its number."""
    port = open_port()
    source, source_port = stranger.getsockname()
    covered = packet(rocev2, length, 7)
    for number in IDENTIFICATIONS:
        sealed = covered + rocev2.icrc_of(source, port.address, source_port, covered, number)
        assert identity(rocev2, stranger, port, covered, sealed) == number
        stranger.sendto(sealed, (port.address, 4791))
        control = [(socket.IPPROTO_UDP, UDP_SEGMENT, struct.pack("H", len(sealed)))]
        stranger.sendmsg([sealed * 3], control, 0, (port.address, 4791))
        assert [arrival.content for arrival in traffic.take(port, 4)] == [covered] * 4
    assert not +Counter(port.drops())


def test_damage_is_no_other_number(open_port, rocev2, traffic, stranger):
    port = open_port()
    source, source_port = stranger.getsockname()
    covered = packet(rocev2, 20, 7)
    sealed = covered + rocev2.icrc_of(source, port.address, source_port, covered)
    bits = [bit for bit in range(8 * len(sealed)) if bit // 8 not in (1, 4)]  # version and padding; congestion
    for bit in bits:
        damaged = bytearray(sealed)
        damaged[bit // 8] ^= 1 << bit % 8
        stranger.sendto(bytes(damaged), (port.address, 4791))
    stranger.sendto(sealed, (port.address, 4791))
    assert [arrival.content for arrival in traffic.take(port, 1)] == [covered]
    drops = +Counter(port.drops())
    assert sum(drops.values()) == len(bits)
    assert drops["drop_icrc"] >= len(bits) - 8  # a flipped opcode can be one of the offload

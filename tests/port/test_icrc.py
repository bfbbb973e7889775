"""The ICRC against published packets and against an oracle of struct and zlib."""

import ipaddress
import struct
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fanin_nic.port.icrc import contiguous_icrc, packet_icrc


class Published(NamedTuple):
    """A packet with its ICRC, from the tests of scapy's RoCE layer."""

    source: str
    destination: str
    source_port: int
    identification: int
    covered: str  # from BTH to padding, hexadecimal
    icrc: str


PUBLISHED = {
    "UC SEND_ONLY": Published(
        "192.168.0.7",
        "192.168.0.7",
        49152,
        1144,
        "2460ffff000000d300cf1710 4630818be28935d90e9a95505401be885e500000",
        "78f353f3",
    ),
    "CNP captured on a ConnectX-4 Lx": Published(
        "10.0.17.1", "10.0.18.1", 0, 0x718C, "8100ffff4000011800000000" + 16 * "00", "82fd002a"
    ),
}

addresses = st.integers(0, 2**32 - 1).map(lambda number: str(ipaddress.IPv4Address(number)))
shorts = st.integers(0, 2**16 - 1)
payloads = st.binary(max_size=300)


def number(address: str) -> np.uint32:
    return np.uint32(int(ipaddress.IPv4Address(address)))


def memory_of(content: bytes) -> np.ndarray:
    return np.frombuffer(content or b"\0", np.uint8)


def contiguous(source: str, destination: str, source_port: int, covered: bytes, identification: int) -> bytes:
    flow, memory = (number(source), number(destination), np.uint32(source_port)), memory_of(covered)
    area = np.uint64(memory.ctypes.data), np.uint64(len(covered))
    return struct.pack("<I", contiguous_icrc(*flow, *area, np.uint32(identification)))


def gathered(
    source: str, destination: str, source_port: int, transport: bytes, payload: bytes, identification: int
) -> bytes:
    flow, areas = (number(source), number(destination), np.uint32(source_port)), (transport, payload)
    memories = [memory_of(area) for area in areas]
    parts = [
        np.uint64(part)
        for memory, area in zip(memories, areas, strict=True)
        for part in (memory.ctypes.data, len(area))
    ]
    return struct.pack("<I", packet_icrc(*flow, *parts, np.uint32(identification)))


@pytest.mark.parametrize("packet", PUBLISHED.values(), ids=list(PUBLISHED))
def test_published_packets(packet, rocev2):
    flow, covered = (packet.source, packet.destination, packet.source_port), bytes.fromhex(packet.covered)
    assert contiguous(*flow, covered, packet.identification).hex() == packet.icrc
    assert rocev2.icrc_of(*flow, covered, packet.identification).hex() == packet.icrc


@given(addresses, addresses, shorts, st.binary(min_size=12, max_size=68), payloads, shorts)
def test_header_and_payload_apart(rocev2, source, destination, source_port, transport, payload, identification):
    padded = payload + bytes(-len(payload) % 4)
    icrc = gathered(source, destination, source_port, transport, payload, identification)
    assert icrc == rocev2.icrc_of(source, destination, source_port, transport + padded, identification)


@given(addresses, addresses, shorts, st.integers(3, 1100), st.randoms(), shorts)
def test_header_and_payload_together(rocev2, source, destination, source_port, words, random, identification):
    covered = random.randbytes(4 * words)
    icrc = contiguous(source, destination, source_port, covered, identification)
    assert icrc == rocev2.icrc_of(source, destination, source_port, covered, identification)


def test_congestion_marks_do_not_count():
    covered = bytes(range(80))
    marked = covered[:4] + b"\xc0" + covered[5:]
    flow = "10.0.0.1", "10.0.0.2", 49152
    assert contiguous(*flow, covered, 0) == contiguous(*flow, marked, 0)

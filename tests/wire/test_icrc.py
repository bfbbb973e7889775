"""The ICRC oracle, anchored to published packets with ICRC."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fanin_wire.golden import vector
from fanin_wire.icrc import NotRoCE, icrc, verify

# From the tests of scapy's RoCE layer (test/contrib/roce.uts, Haggai Eran): IP header or GRH to ICRC.
PUBLISHED = {
    # an example UC SEND_ONLY packet
    "uc_ipv4": "45010040047840004011b4d5c0a80007c0a80007"
    "c00012b7002caca2" + "2460ffff000000d300cf1710" + "4630818be28935d90e9a95505401be885e500000" + "78f353f3",
    # the same over IPv6, with flow label and traffic class
    "uc_ipv6": "6e21face002c11ff20220000000000000000000000001023" + "20230000000000000000000000001024"
    "c00012b7002ce7c5" + "2460ffff000000d300cf1710" + "4630818be28935d90e9a95505401be885e500000" + "3e5b743b",
    # a CNP captured on a ConnectX-4 Lx
    "cnp_captured": "45c2003c718c4000401191610a0011010a001201"
    "000012b700280000" + "8100ffff4000011800000000" + "00" * 16 + "82fd002a",
    # RoCEv1, captured: RC RDMA WRITE ONLY
    "rocev1_write": "602000000028 1b40 00000000000000000000ffff0f000002 00000000000000000000ffff0f000002"
    "0a70ffff0000010a80a788bc 000055d4c0726000000047b300000005 00000000 01000000 e3d856bb",
    # RoCEv1, captured: RC ACKNOWLEDGE
    "rocev1_acknowledge": "602000000014 1b40 00000000000000000000ffff0f000002 00000000000000000000ffff0f000002"
    "1140ffff0000010900a788c0 00000005 25f0c038",
}
EVERY_PUBLISHED = pytest.mark.parametrize("packet", [bytes.fromhex(text) for text in PUBLISHED.values()], ids=PUBLISHED)

GOLDEN = vector("contribution_f32").packet
# Bytes of an IPv4 packet that may change on the way: type of service, TTL and IP checksum, UDP checksum, FECN and BECN.
VARIANT = {1, 8, 10, 11, 26, 27, 32}


@EVERY_PUBLISHED
def test_published(packet: bytes):
    assert icrc(packet) == packet[-4:]
    assert verify(packet)


@EVERY_PUBLISHED
def test_ethernet_padding_does_not_count(packet: bytes):
    assert verify(packet + b"\xee" * 7)


@given(st.integers(0, len(GOLDEN) - 1), st.integers(1, 255))
def test_every_covered_byte_counts(place: int, change: int):
    structural = {0, 2, 3, 9}  # version, header length, total length, protocol
    if place in structural:
        return
    packet = bytearray(GOLDEN)
    packet[place] ^= change
    assert verify(bytes(packet)) == (place in VARIANT)


@pytest.mark.parametrize(
    ("packet", "message"),
    [
        (b"", "no IPv4 or IPv6 header"),
        (bytes(60), "no IPv4 or IPv6 header"),
        (bytes([0x60]) + bytes(30), "no IPv4 or IPv6 header"),
        (GOLDEN[:9] + b"\x06" + GOLDEN[10:], "but protocol 6"),
        (GOLDEN[:-1], "116 bytes, 115 are here"),
        (GOLDEN[:2] + (43).to_bytes(2) + GOLDEN[4:], "43 bytes, 116 are here, 44 are needed"),
    ],
)
def test_malformed_packets(packet: bytes, message: str):
    with pytest.raises(NotRoCE, match=message):
        icrc(packet)

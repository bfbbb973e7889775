"""Any flipped bit of a golden packet is noticed: under way by a checksum, in a device's output by the tester."""

import pytest

from fanin_conform import datagram, tester
from fanin_conform.listener import Mismatch
from fanin_conform.targets.reference import ReferenceTarget
from fanin_conform.targets.target import Frame
from fanin_wire import icrc
from fanin_wire.fields import BTH, FIRST_OFFLOAD_OPCODE, ICRC_SIZE, Opcode
from fanin_wire.golden import Vector, vectors

IP_SIZE, UDP_SIZE = 20, 8
UDP_CHECKSUM = slice(IP_SIZE + 6, IP_SIZE + UDP_SIZE)
MARKS = IP_SIZE + UDP_SIZE + BTH.byte_offset("fecn")  # the one byte that the network may change
PSN = range(BTH.byte_offset("psn"), BTH.size)  # "not looked at"
OFFLOAD = [golden for golden in vectors() if golden.value("BTH", "opcode") >= FIRST_OFFLOAD_OPCODE]


def flipped(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def ip_checksum(packet: bytes) -> int:
    """The sum of the IPv4 header's words in one's complement (RFC 1071): 0 if the checksum is right."""
    return sum(int.from_bytes(packet[at : at + 2]) for at in range(0, IP_SIZE, 2)) % 0xFFFF


def unnoticed_on_the_way(packet: bytes) -> bool:
    """Whether a receiver accepts a packet. UDP's checksum is 0 in the vectors; it is 0 or right [2-7]."""
    try:
        right = icrc.verify(packet)
    except icrc.NotRoCE:
        return False
    return right and ip_checksum(packet) == 0 and not any(packet[UDP_CHECKSUM])


@pytest.mark.parametrize("golden", vectors(), ids=lambda golden: golden.name)
def test_every_bit_that_flips_on_the_way(golden: Vector) -> None:
    assert unnoticed_on_the_way(golden.packet)
    missed = [bit for bit in range(len(golden.packet) * 8) if unnoticed_on_the_way(flipped(golden.packet, bit))]
    assert {bit // 8 for bit in missed} == {MARKS}


def noticed(by: tester.Tester, golden: Vector, data: bytes, port: int) -> bool:
    """Whether the tester, which expects a golden packet, notices another one."""
    source, destination = golden.headers["IP"]["source"], golden.headers["IP"]["destination"]
    right = datagram.dissect(golden.datagram)
    assert right is not None
    expected = tester.Expected(destination, Opcode(right.opcode), right.ceth, right.payload)
    try:
        packet = by.checked(Frame(destination, source, port, data))
    except Mismatch as wrong:
        return bool(wrong.clauses)
    return packet.opcode != expected.opcode or bool(expected.differences(packet))


@pytest.mark.parametrize("golden", OFFLOAD, ids=lambda golden: golden.name)
def test_every_wrong_bit_that_a_device_sends(golden: Vector) -> None:
    """Its ICRC is right, unless the ICRC is the fault. Only the PSN is free."""
    by = tester.Tester(ReferenceTarget(1), 1)
    source, destination = golden.headers["IP"]["source"], golden.headers["IP"]["destination"]
    port = int.from_bytes(golden.packet[IP_SIZE : IP_SIZE + 2])
    assert not noticed(by, golden, golden.datagram, port)
    missed = set()
    for bit in range(len(golden.datagram) * 8):
        wrong = flipped(golden.datagram, bit)
        if bit // 8 < len(wrong) - ICRC_SIZE:
            wrong = datagram.with_icrc(source, destination, port, wrong)
        if not noticed(by, golden, wrong, port):
            missed.add(bit // 8)
    assert missed == set(PSN)
    assert all(noticed(by, golden, golden.datagram, port ^ 1 << bit) for bit in range(16))

"""The wire of the tests: its faults, and their repetition by a seed."""

import socket
from collections.abc import Iterator
from typing import cast

import pytest

from fanin_wire.fields import BTH
from fanin_wire.icrc import verify
from fanin_wire.rocev2 import CODES
from tests.engine.rig import pack

from .machine.guest import Guest
from .wire import ARP, ARP_TYPE, ETHERNET, GUEST_MAC, LENGTH, Faults, Packet, Wire, address_bytes, mac_of, packet

ONE, TWO = address_bytes("10.0.0.1"), address_bytes("10.0.0.2")
COUNT = 2000


class Ends:
    """A guest with a network only, and a NIC that records packets."""

    address = TWO

    def __init__(self) -> None:
        self.frames, self.far = socket.socketpair()
        self.frames.setblocking(False)
        self.serve = None
        self.received: list[Packet] = []

    def receive(self, packets, now) -> None:
        self.received += packets

    def take(self, now) -> list[Packet]:
        return []

    def deadline(self) -> int:
        return 1 << 62

    def send(self, *frames: bytes) -> None:
        for frame in frames:
            self.far.sendall(LENGTH.pack(len(frame)) + frame)


@pytest.fixture
def ends() -> Iterator[Ends]:
    made = Ends()
    yield made
    made.frames.close()
    made.far.close()


def wire_of(ends: Ends, seed: int, faults: Faults) -> Wire:
    wire = Wire(cast(Guest, ends), seed)
    wire.attach(ends)
    wire.faults = faults
    return wire


def numbered(number: int) -> Packet:
    return packet(ONE, TWO, pack(BTH, opcode=CODES["RC_SEND_ONLY"], psn=number) + bytes(8))


def arrived(ends: Ends, faults: Faults, seed: int = 1) -> list[int]:
    """Numbers of the arriving packets, of COUNT that the guest sends."""
    wire = wire_of(ends, seed, faults)
    for number in range(COUNT):
        ends.send(ETHERNET.pack(mac_of(TWO), GUEST_MAC, 0x0800) + numbered(number).ip)
        wire.step(0)
    wire.rest(0.2)
    found, ends.received = [int.from_bytes(each.transport[9:12]) for each in ends.received], []
    return found


def test_without_faults(ends):
    assert arrived(ends, Faults()) == list(range(COUNT))


def test_loss(ends):
    found = arrived(ends, Faults(loss=0.02))
    assert found == sorted(set(found))
    assert 0.01 < 1 - len(found) / COUNT < 0.03


def test_repetition(ends):
    found = arrived(ends, Faults(repetition=0.1))
    assert sorted(set(found)) == list(range(COUNT))
    assert 0.05 < len(found) / COUNT - 1 < 0.15


def test_reordering(ends):
    found = arrived(ends, Faults(reordering=0.1))
    assert sorted(found) == list(range(COUNT))
    late = [number for place, number in enumerate(found) if place and number < max(found[:place])]
    assert 0.05 < len(late) / COUNT < 0.15


def test_a_seed_does_it_again(ends):
    faults = Faults(0.05, 0.05, 0.0)
    assert arrived(ends, faults, 7) == arrived(ends, faults, 7)
    assert arrived(ends, faults, 7) != arrived(ends, faults, 8)


def test_packet_has_a_right_icrc():
    assert verify(numbered(5).ip)
    assert Packet(numbered(5).ip).name == "RC_SEND_ONLY"


def test_damaged_packet_is_counted(ends):
    wire = wire_of(ends, 1, Faults())
    damaged = bytearray(numbered(5).ip)
    damaged[45] ^= 1  # of the data
    ends.send(ETHERNET.pack(mac_of(TWO), GUEST_MAC, 0x0800) + bytes(damaged))
    wire.step(0.1)
    assert ends.received == []
    assert wire.counts["bad ICRC from the guest"] == 1


def test_arp_for_a_nic_of_the_wire_is_answered(ends):
    wire = wire_of(ends, 1, Faults())
    for target in (TWO, address_bytes("10.0.0.9")):
        request = ARP.pack(1, 0x0800, 6, 4, 1, GUEST_MAC, ONE, bytes(6), target)
        ends.send(ETHERNET.pack(b"\xff" * 6, GUEST_MAC, ARP_TYPE) + request)
    wire.rest(0.1)
    answer = ends.far.recv(1 << 16)[LENGTH.size :]
    assert len(answer) == 60
    assert ETHERNET.unpack_from(answer) == (GUEST_MAC, mac_of(TWO), ARP_TYPE)
    assert ARP.unpack_from(answer, ETHERNET.size)[4:] == (2, mac_of(TWO), TWO, GUEST_MAC, ONE)

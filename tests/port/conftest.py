"""Fixtures of the port's tests: an ICRC oracle of struct and zlib, ports on loopback, and packets through them."""

import ctypes
import ipaddress
import itertools
import os
import select
import struct
import zlib
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest

from fanin_nic.engine.records.actions import ACTION, ActionKind
from fanin_nic.port.receive import receive
from fanin_nic.port.sockets import UdpPort
from fanin_nic.port.transmit import transmit
from fanin_wire.fields import HEADER, Opcode

ARRIVAL_S = 5  # loopback delivers at once; this only bounds a failing test


class Arrival(NamedTuple):
    """A received packet: the sender, and the bytes from BTH to before the ICRC."""

    source: str
    content: bytes


class Packet(NamedTuple):
    """A packet to send: destination, content, and members of the header record."""

    destination: str
    payload: bytes = b""
    opcode: int = Opcode.CONTRIBUTION
    position: int = 0


def icrc_of(source: str, destination: str, source_port: int, covered: bytes, identification: int = 0) -> bytes:
    """ICRC on the wire of a RoCEv2 packet whose bytes from BTH to padding are `covered`."""
    udp_length = 8 + len(covered) + 4
    addresses = ipaddress.IPv4Address(source).packed + ipaddress.IPv4Address(destination).packed
    ip = struct.pack(">BBHHHBBH", 0x45, 0xFF, 20 + udp_length, identification, 0x4000, 0xFF, 17, 0xFFFF) + addresses
    udp = struct.pack(">HHHH", source_port, 4791, udp_length, 0xFFFF)
    masked = covered[:4] + b"\xff" + covered[5:]
    return struct.pack("<I", zlib.crc32(b"\xff" * 8 + ip + udp + masked))


def bth(opcode: int, padcount: int = 0, version: int = 0, dqpn: int = 0xFA0C01) -> bytes:
    return struct.pack(">BBHII", opcode, padcount << 4 | version, 0xFFFF, dqpn, 0)


def ceth(length: int = 0, segment_index: int = 0, lane: int = 0) -> bytes:
    return struct.pack(">4B5I2H4BIIQQ", 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, length, 0, 0, segment_index, lane, 0, 0, 0, 0)


@pytest.fixture(scope="session")
def rocev2() -> SimpleNamespace:
    return SimpleNamespace(icrc_of=icrc_of, bth=bth, ceth=ceth)


@pytest.fixture(scope="session")
def addresses() -> Iterator[str]:
    high, low = divmod(os.getpid(), 250)
    return (f"127.{100 + high % 100}.{low}.{n}" for n in itertools.count(1))


@pytest.fixture
def address(addresses: Iterator[str]) -> str:
    return next(addresses)


@pytest.fixture
def open_port(addresses: Iterator[str]) -> Iterator[Callable[..., UdpPort]]:
    """Opens ports, each at a new address; closes them after the test."""
    ports: list[UdpPort] = []

    def opened(**options: int) -> UdpPort:
        ports.append(UdpPort(next(addresses), **options))
        return ports[-1]

    yield opened
    for port in ports:
        port.close()


def send_packets(port: UdpPort, packets: list[Packet], kind: int = ActionKind.SEND) -> int:
    """Transmit as for the engine. Returns the number of packets sent."""
    actions, headers = np.zeros(len(packets), ACTION), np.zeros(len(packets), HEADER)
    payloads = [np.frombuffer(packet.payload or b"\0", np.uint8) for packet in packets]
    actions["kind"] = kind
    actions["destination"] = [int(ipaddress.IPv4Address(packet.destination)) for packet in packets]
    actions["length"] = [len(packet.payload) for packet in packets]
    actions["payload"] = [payload.ctypes.data for payload in payloads]
    headers["opcode"] = [packet.opcode for packet in packets]
    headers["position"] = [packet.position for packet in packets]
    tables = np.uint64(actions.ctypes.data), np.uint64(headers.ctypes.data)
    return int(transmit(port.state, *tables, np.uint32(len(packets))))


def take_packets(port: UdpPort, count: int) -> list[Arrival]:
    """Receive until `count` packets have arrived, or none comes for a while."""
    arrivals: list[Arrival] = []
    descriptors = [fd for fd in (port.receive_fd, port.group_fd) if fd >= 0]
    while len(arrivals) < count and select.select(descriptors, [], [], ARRIVAL_S)[0]:
        arrivals += take_once(port)
    return arrivals


def take_once(port: UdpPort) -> list[Arrival]:
    """The packets of one receive; on loopback these are all sent before."""
    return [
        Arrival(
            str(ipaddress.IPv4Address(int(entry["source"]))),
            ctypes.string_at(int(entry["address"]), int(entry["length"])),
        )
        for entry in port.received[: receive(port.state)]
    ]


@pytest.fixture(scope="session")
def traffic() -> SimpleNamespace:
    return SimpleNamespace(Packet=Packet, send=send_packets, take=take_packets, take_once=take_once)

"""Datagrams of other senders: RoCEv2 is accepted; everything else is dropped and counted by reason."""

import socket
import struct
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from scapy.contrib.roce import BTH
from scapy.layers.inet import IP, UDP
from scapy.packet import Raw

from fanin_nic.port.sockets import UdpPort
from fanin_nic.port.tables import UDP_SEGMENT

PAYLOAD = b"payload!"


@pytest.fixture
def stranger(address) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.bind((address, 0))
        yield udp


@pytest.fixture
def port(open_port) -> UdpPort:
    return open_port()


@pytest.fixture
def seal(rocev2, stranger, port) -> Callable[..., bytes]:
    """Appends the ICRC to the bytes of a packet from the stranger to the port."""
    source, source_port = stranger.getsockname()

    def sealed(covered: bytes, identification: int = 0) -> bytes:
        return covered + rocev2.icrc_of(source, port.address, source_port, covered, identification)

    return sealed


def offload(rocev2, payload: bytes = PAYLOAD, segment_index: int = 0, length: int | None = None, **fields) -> bytes:
    header = rocev2.ceth(len(payload) if length is None else length, segment_index)
    return rocev2.bth(0xC0, **fields) + header + payload


def flipped(packet: bytes, at: int) -> bytes:
    return packet[:at] + bytes([packet[at] ^ 1]) + packet[at + 1 :]


# Name: reason, and the datagram of a sealing function and the packet builder.
DROPPED = {
    "nothing": ("runt", lambda seal, wire: b""),
    "five bytes": ("runt", lambda seal, wire: b"12345"),
    "a BTH without ICRC": ("runt", lambda seal, wire: wire.bth(0x64)),
    "an offload opcode without CETH": ("runt", lambda seal, wire: seal(wire.bth(0xC0) + bytes(12))),
    "zeros": ("icrc", lambda seal, wire: bytes(64)),
    "ones": ("version", lambda seal, wire: b"\xff" * 64),
    "a transport version of 1": ("version", lambda seal, wire: seal(offload(wire, version=1))),
    "a wrong ICRC": ("icrc", lambda seal, wire: flipped(seal(offload(wire)), -1)),
    "a flipped payload bit": ("icrc", lambda seal, wire: flipped(seal(offload(wire)), 70)),
    "another segment index than the identification": ("icrc", lambda seal, wire: seal(offload(wire, segment_index=1))),
    "no multiple of 4": ("length", lambda seal, wire: seal(wire.bth(0x64) + b"ab")),
    "a CETH length that is too large": ("length", lambda seal, wire: seal(offload(wire, length=9))),
    "a CETH length that is too small": ("length", lambda seal, wire: seal(offload(wire, length=4))),
    "padding that the CETH does not know": ("length", lambda seal, wire: seal(offload(wire, padcount=3))),
    "another queue pair": ("queue_pair", lambda seal, wire: seal(offload(wire, dqpn=17))),
}


@pytest.mark.parametrize("name", DROPPED)
def test_dropped_and_counted(name, port, seal, stranger, rocev2, traffic):
    reason, build = DROPPED[name]
    stranger.sendto(build(seal, rocev2), (port.address, 4791))
    good = seal(offload(rocev2))
    stranger.sendto(good, (port.address, 4791))
    assert [arrival.content for arrival in traffic.take(port, 1)] == [good[:-4]]
    assert +Counter(port.drops()) == Counter({f"drop_{reason}": 1})
    assert port.peers()[stranger.getsockname()[0]]["rx_packets"] == 1


def test_a_damaged_segment_does_not_harm_its_super_packet(port, seal, stranger, rocev2, traffic):
    segments = [seal(offload(rocev2, b"%08d" % k, k), identification=k) for k in range(6)]
    datagram = b"".join(flipped(segment, 20) if k == 2 else segment for k, segment in enumerate(segments))
    control = [(socket.IPPROTO_UDP, UDP_SEGMENT, struct.pack("H", len(segments[0])))]
    stranger.sendmsg([datagram], control, 0, (port.address, 4791))
    arrivals = [arrival.content for arrival in traffic.take(port, 5)]
    assert arrivals == [segment[:-4] for k, segment in enumerate(segments) if k != 2]
    assert +Counter(port.drops()) == Counter(drop_icrc=1)


def test_an_ordinary_packet_built_by_scapy_is_accepted(port, stranger, traffic):
    source, source_port = stranger.getsockname()
    flow = IP(src=source, dst=port.address, id=0, flags="DF") / UDP(sport=source_port, dport=4791)
    packet = bytes(flow / BTH(opcode="UD_SEND_ONLY", dqpn=17, psn=5, padcount=1) / Raw(bytes(8) + b"unreliable\0\0"))
    stranger.sendto(packet[28:], (port.address, 4791))
    assert traffic.take(port, 1) == [(source, packet[28:-4])]
    counters = port.peers()[source]
    assert (counters["rx_packets"], counters["rx_bytes"], counters["rx_payload_bytes"]) == (1, len(packet), 19)

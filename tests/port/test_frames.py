"""Ethernet frames of a RAW_PACKET queue pair: sent ones equal scapy's; received ones are checked to the byte."""

import ipaddress
from collections import Counter

import numpy as np
import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Dot1Q, Ether
from scapy.packet import Packet, Raw

from fanin_nic.port.descriptors import Drop
from fanin_nic.port.verbs.frames import ACCEPTED, HEADERS_SIZE, check_frame, datagram_size, write_headers
from fanin_nic.port.verbs.raw_queue_pair import mac_of_group

OWN, OTHER = "02:00:00:00:00:0a", "0e:dc:ba:98:76:54"
HERE, THERE, GROUP = "10.1.2.3", "10.1.2.4", "239.130.0.7"
GROUP_MAC = "01:00:5e:02:00:07"  # without the highest of the last 24 bits
PORT = 0xC000
UNREAD = {*range(6, 12), 34, 35, 40, 41}  # bytes of the headers: sender's MAC and UDP port, UDP checksum


def number_of(address: str) -> int:
    return int(address.replace(":", ""), 16) if ":" in address else int(ipaddress.IPv4Address(address))


def check(frame: bytes, group: str = "0.0.0.0") -> int:
    """The verdict of a port at HERE on a frame. No byte after it may be read."""
    held = np.frombuffer(frame, np.uint8).copy()
    addresses = np.uint64(number_of(OWN)), np.uint32(number_of(HERE)), np.uint32(number_of(group))
    return int(check_frame(np.uint64(held.ctypes.data), len(frame), *addresses))


def frame_to(address: str = HERE, mac: str = OWN, payload: bytes = bytes(20), **fields: object) -> Packet:
    """A good frame, except for the given fields of the IP header."""
    return Ether(src=OTHER, dst=mac) / IP(src=THERE, dst=address, **fields) / UDP(sport=PORT, dport=4791) / Raw(payload)


@pytest.mark.parametrize("size", [0, 16, 17, 18, 19, 84, 4176, 8972])
@pytest.mark.parametrize(("destination", "mac", "hops"), [(THERE, OTHER, 64), (GROUP, GROUP_MAC, 1)])
def test_headers_are_those_of_scapy(size: int, destination: str, mac: str, hops: int) -> None:
    """A frame that is too short for Ethernet is followed by zeros."""
    payload = np.random.default_rng(size).bytes(size)
    held = np.full(HEADERS_SIZE + size + 64, 0xEE, np.uint8)
    addresses = [np.uint64(number_of(address)) for address in (OWN, mac)]
    hosts = [np.uint32(number_of(address)) for address in (HERE, destination)]
    length = write_headers(np.uint64(held.ctypes.data), *addresses, *hosts, np.uint32(PORT), size, 63)
    held[HEADERS_SIZE : HEADERS_SIZE + size] = np.frombuffer(payload, np.uint8)
    headers = IP(src=HERE, dst=destination, id=63, flags="DF", ttl=hops) / UDP(sport=PORT, dport=4791, chksum=0)
    expected = bytes(Ether(src=OWN, dst=mac) / headers / Raw(payload))
    assert held[:length].tobytes() == expected + bytes(max(0, 60 - len(expected)))
    assert set(held[length:]) == {0xEE}


def test_group_has_the_address_of_its_low_bits() -> None:
    assert mac_of_group(GROUP) == number_of(GROUP_MAC)


@pytest.mark.parametrize("payload", [b"", b"1", bytes(18), bytes(8972)])
def test_good_frames(payload: bytes) -> None:
    """Also one with zeros of Ethernet after it, and one with a UDP checksum."""
    for frame in (bytes(frame_to(payload=payload)), bytes(frame_to(payload=payload)) + bytes(30)):
        assert check(frame) == ACCEPTED
        held = np.frombuffer(frame, np.uint8).copy()
        assert datagram_size(np.uint64(held.ctypes.data)) == len(payload)


def test_frames_to_the_group() -> None:
    to_group = bytes(frame_to(GROUP, GROUP_MAC))
    assert check(to_group, GROUP) == ACCEPTED
    assert check(to_group) == Drop.FRAME
    assert check(bytes(frame_to(GROUP, OWN)), GROUP) == Drop.FRAME
    assert check(bytes(frame_to("239.2.0.7", GROUP_MAC)), GROUP) == Drop.FRAME  # shares the Ethernet address


def tagged() -> bytes:
    frame = frame_to()
    return bytes(Ether(src=OTHER, dst=OWN) / Dot1Q(vlan=7) / frame[IP])


DROPPED = {  # name: reason, frame
    "nothing": (Drop.RUNT, b""),
    "a frame that ends in its headers": (Drop.RUNT, bytes(frame_to())[: HEADERS_SIZE - 1]),
    "a frame that ends in its datagram": (Drop.RUNT, bytes(frame_to())[:-1]),
    "zeros": (Drop.FRAME, bytes(64)),
    "ones": (Drop.FRAME, b"\xff" * 64),
    "another Ethernet address": (Drop.FRAME, bytes(frame_to(mac=OTHER))),
    "all Ethernet addresses": (Drop.FRAME, bytes(frame_to(mac="ff:ff:ff:ff:ff:ff"))),
    "another IP address": (Drop.FRAME, bytes(frame_to(THERE))),
    "a VLAN tag": (Drop.FRAME, tagged()),
    "IP options": (Drop.FRAME, bytes(frame_to(options=b"\x01\x01\x01\x00"))),
    "the first fragment": (Drop.FRAME, bytes(frame_to(flags="MF"))),
    "the last fragment": (Drop.FRAME, bytes(frame_to(frag=3))),
    "a wrong checksum of the IP header": (Drop.FRAME, bytes(frame_to(chksum=0x1234))),
    "a wrong length in the IP header": (Drop.FRAME, bytes(frame_to(len=47))),
    "TCP": (Drop.FRAME, bytes(frame_to(proto=6))),
    "another UDP port": (Drop.FRAME, bytes(Ether(dst=OWN) / IP(dst=HERE) / UDP(dport=4790) / Raw(bytes(20)))),
    "a UDP length of less than its header": (
        Drop.FRAME,
        bytes(Ether(dst=OWN) / IP(dst=HERE, len=27) / UDP(dport=4791, len=7) / Raw(bytes(20))),
    ),
    "ARP": (Drop.FRAME, bytes(Ether(dst=OWN, type=0x0806) / Raw(bytes(46)))),
}


@pytest.mark.parametrize("name", DROPPED)
def test_wrong_frames(name: str) -> None:
    reason, frame = DROPPED[name]
    assert check(frame) == reason


def test_each_byte_of_the_headers_counts() -> None:
    """Except those that the ICRC covers, and unused ones."""
    frame = bytes(frame_to())
    for place in range(HEADERS_SIZE):
        changed = frame[:place] + bytes([frame[place] ^ 0x01]) + frame[place + 1 :]
        assert check(changed) == (ACCEPTED if place in UNREAD else Drop.FRAME), place


def test_any_bytes_are_refused_by_a_reason() -> None:
    """Random frames, and good ones with some bytes changed and their ends cut off."""
    random, good = np.random.default_rng(1), np.frombuffer(bytes(frame_to()), np.uint8)
    found: Counter[int] = Counter()
    for _ in range(2000):
        frame = good.copy() if random.random() < 0.7 else random.integers(0, 256, 90, np.uint8)
        places = random.integers(0, len(frame), random.integers(0, 3))
        frame[places] = random.integers(0, 256, len(places))
        found[check(frame[: random.integers(0, len(frame) + 1)].tobytes())] += 1
    assert set(found) == {ACCEPTED, int(Drop.RUNT), int(Drop.FRAME)}

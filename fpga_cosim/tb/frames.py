"""Ethernet frames of packets of the offload, as beats of a bus of 64 bytes, and back."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence

import numpy as np

from fanin_wire.fields import UDP_PORT
from fanin_wire.icrc import UDP_PROTOCOL

BEAT, ETHERNET, IP, UDP = 64, 14, 20, 8
HEADERS = ETHERNET + IP + UDP
DONT_FRAGMENT = 0x4000
TYPE_IPV4 = b"\x08\x00"


def mac_of(address: str) -> bytes:
    """The Ethernet address of a device in these tests."""
    return b"\x02\x00" + ipaddress.IPv4Address(address).packed


def frame(source: str, destination: str, port: int, data: bytes) -> bytes:
    """The frame of a datagram, BTH to ICRC, from one address and source port to another address."""
    words = (0x4500, IP + UDP + len(data), 0, DONT_FRAGMENT, 64 << 8 | UDP_PROTOCOL, 0)
    addresses = b"".join(ipaddress.IPv4Address(each).packed for each in (source, destination))
    ip = bytearray(b"".join(word.to_bytes(2) for word in words) + addresses)
    total = sum(int.from_bytes(ip[at : at + 2]) for at in range(0, IP, 2))
    ip[10:12] = (0xFFFF - (total % 0xFFFF or 0xFFFF)).to_bytes(2)
    udp = b"".join(word.to_bytes(2) for word in (port, UDP_PORT, UDP + len(data), 0))
    return mac_of(destination) + mac_of(source) + TYPE_IPV4 + bytes(ip) + udp + data


def to_beats(frames: Iterable[bytes], dtype: np.dtype) -> np.ndarray:
    """Frames one behind the other, as records of an AXI-Stream; what is behind the end of a frame is any bytes."""
    every = []
    for each in frames:
        count = -(-len(each) // BEAT)
        beats = np.zeros(count, dtype)
        padded = each + bytes([0x5A]) * (count * BEAT - len(each))
        beats["s_axis_tdata"] = np.frombuffer(padded, np.uint8).reshape(count, BEAT)
        beats["s_axis_tkeep"] = 2**BEAT - 1
        beats["s_axis_tkeep"][-1] = 2 ** (len(each) - BEAT * (count - 1)) - 1
        beats["s_axis_tlast"][-1] = 1
        every.append(beats)
    return np.concatenate(every) if every else np.zeros(0, dtype)


def from_beats(beats: np.ndarray) -> Sequence[bytes]:
    """The frames of an AXI-Stream. tkeep must be full in all beats but the last, and there without a gap."""
    frames, data = [], bytearray()
    for each in beats:
        keep = int(each["m_axis_tkeep"])
        assert keep & (keep + 1) == 0, f"tkeep is {keep:#x}"
        assert each["m_axis_tlast"] or keep == 2**BEAT - 1, f"tkeep of a beat in between is {keep:#x}"
        data += each["m_axis_tdata"].tobytes()[: keep.bit_length()]
        if each["m_axis_tlast"]:
            frames.append(bytes(data))
            data.clear()
    assert not data, "the last frame has no end"
    return frames

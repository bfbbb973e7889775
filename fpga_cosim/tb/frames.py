"""Ethernet frames of packets of the offload, as beats of a bus of 64 bytes, and back."""

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
    ip = ipaddress.IPv4Address(address)
    if ip.is_multicast:
        return b"\x01\x00\x5e" + (int(ip) & 0x7FFFFF).to_bytes(3)
    return b"\x02\x00" + ip.packed


def frame(source: str, destination: str, port: int, data: bytes, identification: int = 0) -> bytes:
    """The frame of a datagram, BTH to ICRC, from one address and source port to another address."""
    words = (0x4500, IP + UDP + len(data), identification, DONT_FRAGMENT, 64 << 8 | UDP_PROTOCOL, 0)
    addresses = b"".join(ipaddress.IPv4Address(each).packed for each in (source, destination))
    ip = bytearray(b"".join(word.to_bytes(2) for word in words) + addresses)
    total = sum(int.from_bytes(ip[at : at + 2]) for at in range(0, IP, 2))
    ip[10:12] = (0xFFFF - (total % 0xFFFF or 0xFFFF)).to_bytes(2)
    udp = b"".join(word.to_bytes(2) for word in (port, UDP_PORT, UDP + len(data), 0))
    return mac_of(destination) + mac_of(source) + TYPE_IPV4 + bytes(ip) + udp + data


BEATS = np.dtype([("s_axis_tdata", "u1", BEAT), ("s_axis_tkeep", "u8"), ("s_axis_tlast", "u1")])


def to_beats(frames: Iterable[bytes], dtype: np.dtype = BEATS) -> np.ndarray:
    """Frames without gaps, as records of an AXI-Stream, with random bytes after the end of each."""
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


def from_beats(beats: np.ndarray, stream: str = "m_axis") -> Sequence[bytes]:
    """The frames of an AXI-Stream. tkeep must be full in all beats but the last, and have no gap there."""
    frames, begin = [], 0
    is_last, keeps, data = (beats[f"{stream}_{field}"] for field in ("tlast", "tkeep", "tdata"))
    is_last = is_last != 0
    assert np.all(keeps[~is_last] == 2**BEAT - 1), "tkeep of a beat in between has gaps"
    assert len(beats) == 0 or is_last[-1], "the last frame has no end"
    for end in np.flatnonzero(is_last):
        keep = int(keeps[end])
        assert keep & (keep + 1) == 0, f"tkeep is {keep:#x}"
        frames.append(data[begin : end + 1].tobytes()[: BEAT * int(end - begin) + keep.bit_length()])
        begin = end + 1
    return frames

"""Each frame leaves whole in one of two directions, by its headers, with its `tuser`."""

import ipaddress
from collections.abc import Iterator

import numpy as np
import pytest
from scapy.layers.inet import IP, TCP, UDP, IPOption
from scapy.layers.l2 import ARP, Dot1Q, Ether

from fanin_wire.fields import UDP_PORT
from fpga_cosim.tb import frames
from fpga_cosim.tb.verilated import Module

ADDRESS, USER, ROUNDS = "10.0.0.1", 97, 20
MAC = frames.mac_of(ADDRESS)
WAYS = ("nic", "switch")


def headers() -> Iterator[tuple[bytes, bool]]:
    """The starts of frames, and whether they are for the switch."""
    mac = Ether(dst=MAC.hex(":"), src="02:00:00:00:00:09")
    ip, udp = IP(src="10.0.1.1", dst=ADDRESS), UDP(sport=1, dport=UDP_PORT)
    datagram = mac / ip / udp
    yield bytes(datagram), True
    yield bytes(mac / IP(src="10.0.1.1", dst=ADDRESS, flags="DF", tos=7, ttl=1) / udp), True
    for bit in range(8 * len(MAC)):
        other = (int.from_bytes(MAC) ^ 1 << bit).to_bytes(len(MAC))
        yield other + bytes(datagram)[len(MAC) :], False
    for bit in range(32):
        other = str(ipaddress.IPv4Address(int(ipaddress.IPv4Address(ADDRESS)) ^ 1 << bit))
        yield bytes(mac / IP(src="10.0.1.1", dst=other) / udp), False
    for bit in range(16):
        yield bytes(mac / ip / UDP(sport=UDP_PORT, dport=UDP_PORT ^ 1 << bit)), False
    for bit in range(13):
        yield bytes(mac / IP(src="10.0.1.1", dst=ADDRESS, frag=1 << bit) / udp), False
    yield bytes(mac / IP(src="10.0.1.1", dst=ADDRESS, flags="MF") / udp), False
    yield bytes(mac / IP(src="10.0.1.1", dst=ADDRESS, options=[IPOption(b"\x01" * 4)]) / udp), False
    yield bytes(mac / ip / TCP(sport=1, dport=UDP_PORT)), False
    yield bytes(mac / Dot1Q(vlan=5) / ip / udp), False
    yield bytes(mac / ARP(pdst=ADDRESS)), False
    yield bytes(Ether(dst=mac.dst, src=mac.src, type=0x86DD) / bytes(ip / udp)), False


@pytest.fixture(scope="module")
def select() -> Module:
    return Module("frame_select", {"USER": USER})


def way_of(
    select: Module, sent: list[bytes], generator: np.random.Generator, is_on: np.ndarray | int
) -> dict[str, list[bytes]]:
    """Frames through it, with pauses on all sides; `is_on` at each beat. Returns the frames of each direction."""
    beats = frames.to_beats(sent, select.inputs)
    beats["s_axis_tuser"] = generator.integers(0, 256, beats["s_axis_tuser"].shape)
    beats["s_axis_tuser"][:, USER // 8] &= (1 << USER % 8) - 1
    beats["s_axis_tuser"][:, USER // 8 + 1 :] = 0
    beats["own_mac"], beats["own_address"] = int.from_bytes(MAC), int(ipaddress.IPv4Address(ADDRESS))
    beats["is_on"] = is_on
    select.reset()
    came = {way: [] for way in WAYS}
    for beat in np.split(beats, len(beats)):
        taken = False
        while not taken:
            for way in WAYS:
                beat[f"{way}_axis_tready"] = generator.random() < 0.6
            beat["s_axis_tvalid"] = generator.random() < 0.9
            output = select.run(beat)[0]
            taken = bool(beat["s_axis_tvalid"][0] and output["s_axis_tready"])
            valid = [way for way in WAYS if output[f"{way}_axis_tvalid"]]
            assert len(valid) == beat["s_axis_tvalid"][0]
            if taken:
                assert (output[f"{valid[0]}_axis_tuser"] == beat["s_axis_tuser"][0]).all()
                came[valid[0]].append(output)
            assert taken == any(beat[f"{way}_axis_tready"][0] for way in valid)
    return {way: list(frames.from_beats(np.array(came[way], select.outputs), f"{way}_axis")) for way in WAYS}


def test_by_headers(select: Module, generator: np.random.Generator) -> None:
    """Each bit of the addresses and of the port matters, and each other header that a datagram may have."""
    for _ in range(ROUNDS):
        cases = list(headers())
        sizes = generator.integers(60 - 38, 400, len(cases))
        cases = [(head + generator.bytes(size), wanted) for (head, wanted), size in zip(cases, sizes, strict=True)]
        order = generator.permutation(len(cases))
        sent = [cases[i] for i in order]
        came = way_of(select, [frame for frame, _ in sent], generator, 1)
        assert came["switch"] == [frame for frame, is_for_switch in sent if is_for_switch]
        assert came["nic"] == [frame for frame, is_for_switch in sent if not is_for_switch]


def test_too_short_for_its_port(select: Module, generator: np.random.Generator) -> None:
    """Bytes after the end of a frame decide nothing."""
    head, _ = next(headers())
    short = [head[:length] for length in range(14, 38)]
    beats = way_of(select, [*short, head[:38]], generator, 1)
    assert beats == {"nic": short, "switch": [head[:38]]}


def test_turned_off(select: Module, generator: np.random.Generator) -> None:
    """Everything passes. A frame keeps its direction when the switch is turned on or off meanwhile."""
    head, _ = next(headers())
    sent = [head + generator.bytes(200) for _ in range(40)]
    assert way_of(select, sent, generator, 0) == {"nic": sent, "switch": []}
    count = len(frames.to_beats(sent[:1], select.inputs))
    is_on = generator.integers(0, 2, count * len(sent))
    came = way_of(select, sent, generator, is_on)
    assert came["switch"] == [frame for frame, on in zip(sent, is_on[::count], strict=True) if on]
    assert came["nic"] == [frame for frame, on in zip(sent, is_on[::count], strict=True) if not on]

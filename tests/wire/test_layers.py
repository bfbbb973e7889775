"""The scapy layers: dissection of the golden packets, and packets built from their meaning."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.contrib import roce
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.packet import Raw

from fanin_wire import layers
from fanin_wire.abi import Status
from fanin_wire.fields import UDP_PORT, Flag, Opcode
from fanin_wire.golden import Vector, vector, vectors
from fanin_wire.icrc import icrc, verify
from fanin_wire.layers import AETH, BTH, CETH, CONFIG, DETH, HOP, RETH, ImmDt, offload, opcode

EVERY_VECTOR = pytest.mark.parametrize("golden", vectors(), ids=lambda golden: golden.name)
IPV4 = IP(src="192.0.2.1", dst="192.0.2.2", id=0, flags="DF")
IPV6 = IPv6(src="2001:db8::1", dst="2001:db8::2")


def extended_headers(golden: Vector) -> list[str]:
    """Names of the headers that are layers of scapy (HOP is a list within CONFIG)."""
    return [name for name in golden.headers if name not in ("IP", "UDP", "HOP")]


def build(golden: Vector) -> IP:
    """The packet of a vector, built from its meaning; the layers add padding, lengths and ICRC."""
    addresses = golden.headers["IP"]
    packet = IP(src=addresses["source"], dst=addresses["destination"], id=addresses.get("id", 0), flags="DF")
    packet /= UDP(sport=golden.value("UDP", "sport"), dport=UDP_PORT, chksum=0)
    for name in extended_headers(golden):
        values = {field: value for field, value in golden.headers[name].items() if field not in ("padcount", "hops")}
        if name == "CONFIG":
            values["hop"] = [HOP(**hop) for hop in golden.headers["HOP"]]
        packet /= getattr(layers, name)(**values)
    return packet / Raw(golden.payload) if golden.payload else packet


@EVERY_VECTOR
def test_builds_golden_bytes(golden: Vector):
    assert bytes(build(golden)) == golden.packet


@EVERY_VECTOR
def test_dissects_golden_bytes(golden: Vector):
    packet = IP(golden.packet)
    for name in extended_headers(golden):
        layer = packet[getattr(layers, name)]
        assert {field: layer.getfieldval(field) for field in golden.headers[name]} == golden.headers[name]
    assert [{f: hop.getfieldval(f) for f in ("address", "mask", "bit")} for hop in hops(packet)] == [
        {"mask": 0, "bit": 0, **hop} for hop in golden.headers.get("HOP", [])
    ]
    assert bytes(packet[Raw]) == golden.payload if golden.payload else Raw not in packet
    assert packet[BTH].pad == bytes(golden.value("BTH", "padcount"))
    assert packet[BTH].icrc == int.from_bytes(golden.packet[-4:])


def hops(packet: IP) -> list[HOP]:
    return packet[CONFIG].hop if CONFIG in packet else []


@EVERY_VECTOR
def test_rebuilds_what_it_dissected(golden: Vector):
    packet = IP(golden.packet)
    packet.clear_cache()
    del packet[BTH].icrc
    assert bytes(packet) == golden.packet


@settings(max_examples=40)
@given(st.sampled_from([IPV4, IPV6]), st.binary(max_size=70), st.integers(0, 2**64 - 1))
def test_padding_length_and_icrc_come_by_themselves(ip, payload, bitmap):
    head = offload(Opcode.CONTRIBUTION, flags=Flag.HAS_DATA, node_bitmap=bitmap)
    data = bytes(ip / UDP(sport=0xC000) / head / Raw(payload))
    assert verify(data)
    read = type(ip)(data)
    assert (read[CETH].length, read[CETH].node_bitmap) == (len(payload), bitmap)
    assert len(read[BTH].pad) == read[BTH].padcount == -len(payload) % 4
    assert bytes(read[CETH].payload) == payload


def test_a_header_may_tell_another_length():
    packet = IP(bytes(IPV4 / UDP() / offload(Opcode.CONTRIBUTION, length=4096)))
    assert packet[CETH].length == 4096
    assert not packet[CETH].payload


def test_a_wrong_icrc_can_be_given():
    assert not verify(bytes(IPV4 / UDP() / BTH(icrc=0) / CETH()))


def test_a_wrong_padcount_can_be_given():
    assert IP(bytes(IPV4 / UDP() / BTH(padcount=3) / CETH())).padcount == 3


def test_codes_have_names():
    packet = offload(Opcode.NAK, status=Status.NOT_CONFIGURED, flags=0x43)
    assert packet.sprintf("%BTH.opcode% %CETH.status% %CETH.flags%") == (
        "NAK NOT_CONFIGURED HAS_DATA+WANTS_RESULT+CLASS_ALL"
    )
    assert BTH(opcode="RESULT").opcode == Opcode.RESULT


@pytest.mark.parametrize(
    ("code", "header"),
    [("SEND_ONLY", Raw), ("RDMA_WRITE_ONLY", RETH), ("ACKNOWLEDGE", AETH), ("SEND_LAST_WITH_IMMEDIATE", ImmDt)],
)
def test_opcode_decides_the_first_header(code, header):
    packet = BTH(bytes(BTH(opcode=opcode("RC", code), icrc=0) / bytes(32)))
    assert type(packet.payload) is header


@pytest.mark.parametrize("header", [CETH, DETH, RETH, layers.AtomicETH])
def test_header_decides_the_opcode(header):
    assert type(BTH(bytes(BTH(icrc=0) / header() / bytes(8))).payload) is header


def test_scapy_agrees_on_the_icrc_of_its_own_packets():
    plain = IPV4 / UDP(sport=1, dport=UDP_PORT) / roce.BTH(opcode="UC_SEND_ONLY", psn=5) / Raw(b"fourfour")
    assert bytes(plain)[-4:] == icrc(bytes(plain))


def test_congestion_notification_packet():
    packet = IP(bytes(IPV4 / UDP() / layers.cnp(dqpn=0xD2)))
    assert packet[BTH].opcode == layers.CNP_OPCODE
    assert layers.CNPPadding in packet


def test_show_names_every_part():
    text = IP(vector("config_three_hops").packet).show(dump=True)
    assert "::ffff:192.0.2.110" in text
    assert "CONFIG" in text

"""Wireshark with the dissector: every field of the golden packets, filters, expert information, damaged packets."""

import ipaddress
import random
from pathlib import Path
from typing import Any

import pytest
from scapy.layers.inet import IP, UDP
from scapy.packet import Raw

from fanin_wire.fields import UDP_PORT, Flag, Opcode
from fanin_wire.golden import Vector, vector, vectors
from fanin_wire.layers import BTH, CETH, CONFIG, CONFIG_ACK, DETH, HOP, WAIT, offload, opcode
from fanin_wire.lua_tables import HEADERS
from tests.dissector.tshark import dissected, rows, tshark, values, write

LAYERS = {"BTH": BTH, "CETH": CETH, "CONFIG": CONFIG, "HOP": HOP, "CONFIG_ACK": CONFIG_ACK, "WAIT": WAIT}
OURS = [golden for golden in vectors() if "CETH" in golden.headers]
DATA = int(Flag.HAS_DATA) | 2 << 5


@pytest.fixture(scope="module")
def golden_capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("golden") / "golden.pcap", [IP(golden.packet) for golden in vectors()])


@pytest.fixture(scope="module")
def frames(golden_capture: Path) -> list[dict[str, Any]]:
    return dissected(golden_capture)


def number(text: str) -> int:
    return int(ipaddress.ip_address(text)) if text.count(":") > 1 else int(text, 0)


@pytest.mark.parametrize("golden", OURS, ids=lambda golden: golden.name)
def test_every_field_has_the_value_that_the_layers_say(frames: list[dict[str, Any]], golden: Vector) -> None:
    shown = values(frames[vectors().index(golden)])
    packet = IP(golden.packet)
    for header in HEADERS:
        prefix = "fanin." if header.name == "CETH" else f"fanin.{header.name.lower()}."
        layers = [packet[LAYERS[header.name]]] if LAYERS[header.name] in packet else []
        if header.name == "HOP" and CONFIG in packet:
            layers = packet[CONFIG].hop
        for field in header.fields:
            wanted = [layer.getfieldval(field.name) for layer in layers]
            found = [number(text) for text in shown.get(prefix + field.name, [])]
            assert found == [number(one) if isinstance(one, str) else int(one) for one in wanted], prefix + field.name
    assert number(shown["fanin.kind"][0]) == packet[BTH].opcode
    assert number(shown["fanin.icrc"][0]) == packet[BTH].icrc
    assert shown["fanin.icrc.status"] == ["1"]
    data = "".join(shown.get("fanin.data", [])).replace(":", "")
    assert data == (golden.payload.hex() if Raw in packet else "")


def test_other_packets_are_wiresharks_own(frames: list[dict[str, Any]]) -> None:
    assert [golden for golden, frame in zip(vectors(), frames, strict=True) if "fanin" in frame] == OURS
    assert all("infiniband" in frame for frame in frames)


@pytest.mark.parametrize("code", Opcode, ids=lambda code: code.name)
def test_filter_by_the_name_of_a_kind(golden_capture: Path, code: Opcode) -> None:
    wanted = [n for n, golden in enumerate(vectors(), 1) if golden.value("BTH", "opcode") == code]
    query = f"fanin.jid == 7 && fanin.kind == {code.name.lower()}"
    found = tshark(golden_capture, "-Y", query, "-T", "fields", "-e", "frame.number")
    assert [int(line) for line in found.split()] == wanted


def ip(source: str = "192.0.2.1", destination: str = "192.0.2.100") -> IP:
    return IP(src=source, dst=destination, id=0, flags="DF") / UDP(sport=0xC000, dport=UDP_PORT, chksum=0)


def segment(code: Opcode, *, psn: int = 0, data: bytes = b"\0\0\x80?", **ceth: Any) -> IP:
    """A segment of f32 between child 1 and its parent."""
    given = {"flags": DATA, "op": 1, "dtype": 1, "jid": 7, "key": 5, "source": 1, "node_bitmap": 2} | ceth
    head = offload(code, **given)
    head[BTH].psn = psn
    ends = ("192.0.2.1", "192.0.2.100") if code == Opcode.CONTRIBUTION else ("192.0.2.100", "192.0.2.1")
    return IP(bytes(ip(*ends) / head / Raw(data)))


def with_bth(packet: IP, **changes: int) -> IP:
    """The packet with other values in its transport header, and a right ICRC."""
    changed = packet.copy()
    for name, value in changes.items():
        setattr(changed[BTH], name, value)
    del changed[BTH].icrc
    return IP(bytes(changed))


CONTRIBUTION = segment(Opcode.CONTRIBUTION)
BROKEN = {
    "Shorter than its headers": IP(bytes(ip() / Raw(bytes(CONTRIBUTION[UDP].payload)[:40]))),
    "Size, length and padcount disagree": segment(Opcode.CONTRIBUTION, length=8),
    "The body is shorter than its fields": IP(bytes(ip() / offload(Opcode.WAIT, jid=7) / Raw(bytes(4)))),
    "Wrong ICRC": IP(bytes(CONTRIBUTION)[:-1] + b"\0"),
    "Unknown opcode": with_bth(CONTRIBUTION, opcode=0xCF),
    "Another version": segment(Opcode.CONTRIBUTION, version=3),
    "No such source: 0 to 63": segment(Opcode.CONTRIBUTION, source=64),
    "Unknown operation": segment(Opcode.CONTRIBUTION, op=99),
    "Unknown element type": segment(Opcode.CONTRIBUTION, dtype=99),
    "Devices do not compute this operation on this type": segment(Opcode.CONTRIBUTION, op=9),
    "No such contributor class, or data of nobody": segment(Opcode.CONTRIBUTION, flags=1),
    "Unknown status": segment(Opcode.CONTRIBUTION, status=99),
    "A status other than SUCCESS": segment(Opcode.RESULT, status=3, position=9),
    "No result of this contribution in the capture": CONTRIBUTION,
}


def test_every_expert_info_about_one_packet(tmp_path: Path) -> None:
    path = write(tmp_path / "broken.pcap", list(BROKEN.values()))
    for text, (found,) in zip(BROKEN, rows(path, "_ws.expert.message"), strict=True):
        assert text in found


def test_answers_duplicates_and_retransmissions(tmp_path: Path) -> None:
    packets = [
        segment(Opcode.CONTRIBUTION, psn=1),
        segment(Opcode.CONTRIBUTION, psn=1),
        segment(Opcode.CONTRIBUTION, psn=2),
        segment(Opcode.CONTRIBUTION, psn=3, position=1, mid=1),
        segment(Opcode.RESULT, psn=1),
    ]
    names = ("response_in", "response_to", "duplicate_of", "retransmission_of", "stream", "message")
    found = rows(write(tmp_path / "answers.pcap", packets), *(f"fanin.{name}" for name in names))
    assert found == [
        ["5", "", "", "", "0", "0"],
        ["", "", "1", "", "0", "0"],
        ["5", "", "", "1", "0", "0"],
        ["", "", "", "", "0", "1"],
        ["", "1", "", "", "0", "0"],
    ]
    experts = [row[0] for row in rows(tmp_path / "answers.pcap", "_ws.expert.message")]
    assert "Duplicate" in experts[1]
    assert "Retransmission" in experts[2]
    assert ["No result" in text for text in experts] == [False, False, False, True, False]


def test_a_super_packet_is_shown_as_its_packets(tmp_path: Path) -> None:
    parts = [vector(f"super_packet_segment_{index}").datagram for index in range(3)]
    port = vector("super_packet_segment_0").value("UDP", "sport")
    whole = IP(src="192.0.2.3", dst="192.0.2.100") / UDP(sport=port, dport=UDP_PORT) / Raw(b"".join(parts))
    found = rows(write(tmp_path / "super.pcap", [IP(bytes(whole))]), "fanin.segment_index", "fanin.icrc.status")
    assert found == [["0,1,2", "1,1,1"]]


def in_a_datagram(golden: Vector, *, qkey: int = 0x0FA0C01) -> IP:
    """A golden packet as the payload of a UD SEND, as section 17 of SPEC.md has it. The ports are not its own."""
    ends = {"src": golden.headers["IP"]["source"], "dst": golden.headers["IP"]["destination"], "id": 7, "flags": "DF"}
    head = BTH(opcode=opcode("UD", "SEND_ONLY"), dqpn=0x123, psn=9) / DETH(qkey=qkey, sqpn=0x456)
    return IP(bytes(IP(**ends) / UDP(sport=0xD00D, dport=UDP_PORT, chksum=0) / head / Raw(golden.datagram)))


def test_packets_over_ud_queue_pairs(tmp_path: Path) -> None:
    """Each is shown as it is over UDP, with its ICRC; the datagram around it is Wireshark's own. With another key it is
    somebody else's."""
    packets = [in_a_datagram(golden) for golden in OURS] + [in_a_datagram(OURS[0], qkey=1)]
    names = ("fanin.kind", "fanin.jid", "fanin.icrc.status", "infiniband.deth.q_key")
    found = rows(write(tmp_path / "ud.pcap", packets), *names)
    for golden, row in zip(OURS, found, strict=False):
        assert [number(text) for text in row[:2]] == [golden.value("BTH", "opcode"), golden.value("CETH", "jid")]
        assert row[2] == "1", golden.name
    assert [number(row[3]) for row in found] == [0x0FA0C01] * len(OURS) + [1]
    assert found[-1][:3] == ["", "", ""]


def test_headers_of_ordinary_traffic_are_shown(golden_capture: Path) -> None:
    """By Wireshark's own dissector, which this one calls: those of each golden packet."""
    names = {"RETH": "reth.va", "DETH": "deth.srcqp", "AETH": "aeth.syndrome", "AtomicETH": "atomiceth.swapdt"}
    found = rows(golden_capture, *(f"infiniband.{name}" for name in names.values()))
    for golden, row in zip(vectors(), found, strict=True):
        for header, text in zip(names, row, strict=True):
            assert text or header not in golden.headers, (golden.name, header)


@pytest.mark.parametrize("seed", range(2))
def test_damaged_packets_do_no_harm(tmp_path: Path, seed: int) -> None:
    """Bits are flipped and ends cut off behind the UDP header; `tshark` fails if Lua complains."""
    chance = random.Random(seed)
    packets = []
    for golden in OURS * 12:
        datagram = bytearray(bytes(in_a_datagram(golden))[28:] if chance.random() < 0.3 else golden.datagram)
        for _ in range(chance.randrange(1, 4)):
            datagram[chance.randrange(len(datagram))] ^= 1 << chance.randrange(8)
        end = chance.choice([len(datagram), chance.randrange(len(datagram) + 1)])
        packets.append(IP(bytes(ip() / Raw(bytes(datagram[:end])))))
    path = write(tmp_path / "damaged.pcap", packets)
    assert len(tshark(path, "-V").split("\nFrame ")) >= len(packets)

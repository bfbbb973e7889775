"""Packets of a whole job on a link: dissected by scapy, ICRC checked, read by tshark."""

import contextlib
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scapy.layers.inet import IP, UDP
from scapy.packet import Raw
from scapy.utils import rdpcap

from fanin_tools.fabric import namespaces
from fanin_tools.fabric.generate import Shape
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.stress.faults.fault_kinds import cut_super_packets
from fanin_wire import fields
from fanin_wire.fields import Opcode
from fanin_wire.layers import BTH, CETH, CONFIG, CONFIG_ACK
from tests.dissector.tshark import rows as dissected_rows
from tests.dissector.tshark import tshark
from tests.e2e.fabrics import BOUND_S, Bench, Statuses, statuses, undisturbed
from tests.e2e.members import job, run_ranks

RANKS = 2
CHUNK = 4096
SEGMENTS = 41
ELEMENTS = 40 * CHUNK // 4 + 1  # of f32: the last segment has 4 bytes
PROGRAM = Path(__file__).with_name("capture_link.py")
NIC = "nic0"


@pytest.fixture(scope="module")
def running(bench: Bench, namespaces_allowed: None) -> Running:
    found = bench.up(Shape(RANKS, 1, netns=True))
    cut_super_packets(found.fabric)
    return found


@contextlib.contextmanager
def capturing(running: Running, path: Path) -> Iterator[None]:
    """All on the first NIC's link goes into the file `path`."""
    host = running.fabric.device(NIC).host
    command = [*namespaces.prefix_command(running.fabric, host), sys.executable, str(PROGRAM), "eth0", str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield
            process.communicate(timeout=BOUND_S)
            assert process.returncode == 0
        finally:
            process.kill()


@pytest.fixture(scope="module", params=["tree", "ring"])
def route(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def file(running: Running, route: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a job from its first CONFIG to its last LEAVE_ACK."""
    path = tmp_path_factory.mktemp("capture") / f"{route}.pcap"

    def measure() -> tuple[Statuses, Statuses]:
        before = statuses(running)
        with capturing(running, path), job(running, RANKS, route) as members:
            array = np.arange(ELEMENTS, dtype="f4")
            results = run_ranks(RANKS, lambda rank: members[rank].allreduce(array, timeout=BOUND_S))
            assert all(np.array_equal(result, 2 * array) for result in results)
        return before, statuses(running)

    undisturbed(measure)
    return path


@pytest.fixture(scope="module")
def packets(file: Path) -> list[Any]:
    """RoCEv2 only."""
    return [frame for frame in rdpcap(str(file)) if UDP in frame and frame[UDP].dport == fields.UDP_PORT]


def of(packets: list[Any], *codes: Opcode) -> list[Any]:
    return [packet for packet in packets if packet[BTH].opcode in {int(code) for code in codes}]


def test_every_packet_dissects_fully(packets: list[Any]) -> None:
    """Every byte belongs to a layer; padding, CETH length and IP length agree."""
    assert packets
    for packet in packets:
        transport, ceth = packet[BTH], packet[CETH]
        payload = bytes(ceth.payload)
        assert Opcode(transport.opcode)
        assert len(payload) == ceth.length
        assert transport.padcount == -ceth.length % 4 == len(transport.pad)
        whole = fields.IPV4_UDP_SIZE + fields.TRANSPORT_SIZE + ceth.length + transport.padcount + fields.ICRC_SIZE
        assert packet[IP].len == whole
        data = transport.opcode in (Opcode.CONTRIBUTION, Opcode.RESULT)
        padded = transport.opcode in (Opcode.CONFIG, Opcode.CONFIG_ACK) and Raw in packet and not any(packet[Raw].load)
        assert data or padded or Raw not in packet


def test_every_packet_has_the_right_icrc(packets: list[Any]) -> None:
    for packet in packets:
        at_the_end = bytes(packet[UDP].payload)[-fields.ICRC_SIZE :]
        assert packet[BTH].compute_icrc(bytes(packet[BTH])) == at_the_end


def test_building_again_gives_the_same_bytes(packets: list[Any]) -> None:
    """Lengths, padding and ICRC are left to the layers."""
    computed = [(IP, "len"), (IP, "chksum"), (UDP, "len"), (BTH, "icrc"), (BTH, "padcount"), (CETH, "length")]
    for packet in packets:
        again = packet[IP].copy()
        for layer, name in computed:
            again[layer].delfieldval(name)
        again[BTH].pad = b""
        again[UDP].chksum = packet[UDP].chksum
        assert bytes(again) == bytes(packet[IP])


def test_headers_are_those_of_the_offload(packets: list[Any]) -> None:
    for packet in packets:
        assert packet[IP].flags == "DF"
        assert packet[IP].id == packet[CETH].segment_index
        assert packet[BTH].dqpn == fields.COLLECTIVE_QPN
        assert packet[BTH].pkey == fields.DEFAULT_PKEY
        assert packet[CETH].version == fields.WIRE_VERSION
    assert len({(packet[CETH].jid, packet[CETH].key) for packet in packets}) == 1


def test_a_job_is_seen_from_its_beginning_to_its_end(packets: list[Any], route: str) -> None:
    """On one NIC's link, up and down: membership, 41 segments each way, leave; nothing asked for."""
    seen = Counter(Opcode(packet[BTH].opcode) for packet in packets)
    data = {Opcode.CONTRIBUTION, Opcode.RESULT}
    membership = {Opcode.CONFIG, Opcode.CONFIG_ACK, Opcode.LEAVE, Opcode.LEAVE_ACK}
    assert set(seen) - {Opcode.KEEPALIVE} == data | membership | ({Opcode.ACK} if route == "ring" else set())
    assert (seen[Opcode.CONTRIBUTION], seen[Opcode.RESULT]) == (SEGMENTS, SEGMENTS)
    for packet in of(packets, *data):
        assert packet[CETH].length == (4 if packet[CETH].position == SEGMENTS - 1 else CHUNK)
        assert packet[CETH].sid == packet[CETH].position
    assert all(CONFIG in packet and packet[CONFIG].hop for packet in of(packets, Opcode.CONFIG))
    assert all(CONFIG_ACK in packet for packet in of(packets, Opcode.CONFIG_ACK))


def test_payload_is_the_message(packets: list[Any]) -> None:
    results = {packet[CETH].position: bytes(packet[CETH].payload) for packet in of(packets, Opcode.RESULT)}
    joined = b"".join(results[position] for position in sorted(results))
    assert np.array_equal(np.frombuffer(joined, "<f4"), 2 * np.arange(ELEMENTS, dtype="f4"))


def test_the_dissector_finds_nothing_wrong(file: Path, packets: list[Any]) -> None:
    """A right ICRC in every packet, a result for every contribution; the filter by kind works."""
    names = ("_ws.malformed", "_ws.expert.severity", "fanin.icrc.status", "fanin.kind", "fanin.response_in")
    found = [row for row in dissected_rows(file, *names) if row[2]]
    assert len(found) == len(packets)
    for malformed, experts, icrc, kind, answer in found:
        assert (malformed, experts, icrc) == ("", "", "1")
        assert answer or int(kind, 0) != Opcode.CONTRIBUTION
    jid = packets[0][CETH].jid
    results = tshark(file, "-Y", f"fanin.jid == {jid} && fanin.kind == result", "-T", "fields", "-e", "fanin.position")
    assert len(results.split()) == SEGMENTS


def test_tshark_sees_well_formed_rocev2(file: Path, packets: list[Any]) -> None:
    """Without a plugin: InfiniBand BTH over UDP with unknown opcodes, nothing malformed."""
    if shutil.which("tshark") is None:
        pytest.skip("the program `tshark` (wireshark)")
    wanted = ["frame.protocols", "infiniband.bth.opcode", "infiniband.bth.destqp", "_ws.malformed"]
    options = [word for name in wanted for word in ("-e", name)]
    filtered = ["-Y", f"udp.dstport == {fields.UDP_PORT}", "-T", "fields", "-E", "separator=;"]
    done = subprocess.run(
        ["tshark", "-n", "-r", str(file), *filtered, *options], capture_output=True, text=True, timeout=BOUND_S
    )
    assert done.returncode == 0, done.stderr
    rows = [line.split(";") for line in done.stdout.splitlines()]
    assert len(rows) == len(packets)
    for row, packet in zip(rows, packets, strict=True):
        protocols, opcode, queue, malformed = row
        assert protocols.startswith("eth:ethertype:ip:udp:infiniband")
        assert int(opcode, 0) == packet[BTH].opcode
        assert int(queue, 0) == fields.COLLECTIVE_QPN
        assert malformed == ""

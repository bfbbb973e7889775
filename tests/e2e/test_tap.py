"""Captures by the devices themselves: every packet, why it was dropped, filters, rings that are too small."""

import contextlib
import ipaddress
import json
import socket
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from scapy.layers.inet import IP, UDP
from scapy.packet import Raw
from scapy.utils import RawPcapNgReader

from fanin_tools.errors import ToolError, UsageError
from fanin_tools.fabric.generate import Shape
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.tap import listen
from fanin_tools.tap.reader import CONSUMER, Tap, Wanted, records
from fanin_wire.abi import TapFlag
from fanin_wire.fields import UDP_PORT, Opcode
from fanin_wire.layers import BTH, offload, opcode
from fanin_wire.tap import ALL_KINDS, MIN_UNITS, UNIT, Record
from tests.dissector.tshark import rows, tshark
from tests.e2e.fabrics import BOUND_S, Bench, eventually, statuses
from tests.e2e.members import job, run_ranks
from tests.e2e.taps import PACKETS, capturing, settled, statistics_of

RANKS = 4
ELEMENTS = 30_001  # of f32: 15 segments in two lanes
FIELDS = (
    *("_ws.malformed", "_ws.expert.message", "fanin.icrc.status", "fanin.kind", "fanin.segment_index"),
    *("fanin.response_in", "frame.comment", "frame.interface_name", "frame.packet_flags_direction"),
)
NAMES = [name.rpartition(".")[2] for name in FIELDS]
WAYS = {1: "rx", 2: "tx"}  # directions of pcapng


@pytest.fixture(scope="module")
def running(bench: Bench) -> Running:
    return bench.up(Shape(2, 2, lanes=2))


def allreduce(running: Running, jid: int | None = None) -> int:
    """In a job of its own, whose number is returned."""
    with job(running, RANKS, "tree") as members:
        array = np.arange(ELEMENTS, dtype="f4")
        results = run_ranks(RANKS, lambda rank: members[rank].allreduce(array, timeout=BOUND_S))
        assert all(np.array_equal(result, RANKS * array) for result in results)
        return members[0].job.jid


def test_every_packet_of_a_job(running: Running, tmp_path: Path) -> None:
    """As many as the devices count, each with its own headers and a right ICRC, at its own device."""
    path, before = tmp_path / "job.pcapng", settled(running)
    with capturing(running, path) as tally:
        jid = allreduce(running)
        after = settled(running)
    assert tally.missed == 0
    found = [dict(zip(NAMES, row, strict=True)) for row in rows(path, *FIELDS)]
    seen = Counter((packet["interface_name"], WAYS[int(packet["packet_flags_direction"], 0)]) for packet in found)
    assert seen == after - before
    assert statistics_of(path) == [(seen[name, "rx"] + seen[name, "tx"], 0) for name in statuses(running)]
    for packet in found:
        assert (packet["malformed"], packet["status"]) == ("", "1")
        assert not packet["message"] or packet["comment"]  # packets after the end of the job are dropped
        assert packet["response_in"] or int(packet["kind"], 0) != Opcode.CONTRIBUTION
    assert any(int(packet["segment_index"]) > 0 for packet in found)  # places in super-packets
    query = f"fanin.jid == {jid} && fanin.kind == result"
    results = tshark(path, "-Y", query, "-T", "fields", "-e", "fanin.position").split()
    assert len(results) == sum(int(packet["kind"], 0) == Opcode.RESULT for packet in found) > 0


def test_filters(running: Running, tmp_path: Path) -> None:
    """The device filters by job and kind, the capture by drops."""
    with contextlib.ExitStack() as stack:
        members = [stack.enter_context(job(running, RANKS, "tree")) for _ in range(2)]
        wanted = Wanted(TapFlag.PACKETS | TapFlag.ONE_JOB, members[0][0].job.jid, listen.kinds_of(["result"]))
        path, dropped = tmp_path / "results.pcapng", tmp_path / "dropped.pcapng"
        with capturing(running, path, wanted) as tally:
            for each in members:
                run_ranks(RANKS, lambda rank, each=each: each[rank].allreduce(np.ones(ELEMENTS, "f4"), timeout=BOUND_S))
        with capturing(running, dropped, only_dropped=True) as nothing:
            run_ranks(RANKS, lambda rank: members[0][rank].allreduce(np.ones(ELEMENTS, "f4"), timeout=BOUND_S))
    assert {tuple(row) for row in rows(path, "fanin.jid", "fanin.kind")} == {
        (str(wanted.jid), f"0x{Opcode.RESULT:02x}")
    }
    assert tally.packets
    assert (nothing.packets, nothing.missed) == (nothing.dropped, 0)


def broken_packets(address: str, switch: str, port: int) -> dict[str, bytes]:
    """Packets that a switch drops, by the counter of the reason."""
    ip = IP(src=address, dst=switch, id=0, flags="DF") / UDP(sport=port, dport=UDP_PORT, chksum=0)
    code = Opcode.CONTRIBUTION
    right = bytes(IP(bytes(ip / offload(code, jid=1, key=2)))[UDP].payload)
    made = {
        "drop_icrc": right[:-1] + bytes([right[-1] ^ 1]),
        "drop_runt": right[:8],
        "drop_lane": bytes(IP(bytes(ip / offload(code, lane=9)))[UDP].payload),
        "drop_queue_pair": bytes(IP(bytes(ip / (BTH(opcode=int(code), dqpn=7) / Raw(right[12:-4]))))[UDP].payload),
        "drop_unknown_job": right,
        "drop_unknown_opcode": bytes(IP(bytes(ip / offload(code, jid=1, source=64)))[UDP].payload),
    }
    return made


def test_reasons_of_drops(running: Running, tmp_path: Path) -> None:
    """A packet's comment is the name of the counter that counted it: of the port, of the engine."""
    (switch,), path = running.fabric.switches, tmp_path / "broken.pcapng"
    before = statuses(running)[switch.name]["counters"]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger, capturing(running, path) as tally:
        stranger.bind((str(ipaddress.IPv4Address(switch.address) - 100), 0))
        sent = broken_packets(*stranger.getsockname()[:1], switch.address, stranger.getsockname()[1])
        for datagram in sent.values():
            stranger.sendto(datagram, (switch.address, UDP_PORT))
        wanted = [before[reason] + 1 for reason in sent]
        eventually(
            lambda: [statuses(running)[switch.name]["counters"][reason] for reason in sent],
            lambda found: found == wanted,
        )
    found = {bytes(IP(data)[UDP].payload): meta.comments for data, meta in RawPcapNgReader(str(path)) if meta.comments}
    assert found == {datagram: [reason.encode()] for reason, datagram in sent.items()}
    assert tally.dropped == len(sent)
    comments = [row[0] for row in rows(path, "frame.comment") if row[0]]
    assert sorted(comments) == sorted(sent)


def test_reasons_of_ordinary_traffic(running: Running, tmp_path: Path) -> None:
    """A send to an unknown queue pair; a capture of this kind has nothing else."""
    nic, path = running.fabric.nics[0], tmp_path / "ordinary.pcapng"
    counter = "ordinary_drop_unknown_queue_pair"
    before = statuses(running)[nic.name]["counters"][counter]
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger,
        capturing(running, path, Wanted(TapFlag.PACKETS, kinds=listen.kinds_of(["ordinary"]))),
    ):
        stranger.bind((str(ipaddress.IPv4Address(nic.address) + 100), 0))
        address, port = stranger.getsockname()
        ip = IP(src=address, dst=nic.address, id=0, flags="DF") / UDP(sport=port, dport=UDP_PORT, chksum=0)
        datagram = bytes(
            IP(bytes(ip / BTH(opcode=opcode("RC", "SEND_ONLY"), dqpn=0xABCDEF) / Raw(b"data")))[UDP].payload
        )
        stranger.sendto(datagram, (nic.address, UDP_PORT))
        allreduce(running)
        eventually(lambda: statuses(running)[nic.name]["counters"][counter], lambda now: now == before + 1)
    assert [(bytes(IP(data)[UDP].payload), meta.comments) for data, meta in RawPcapNgReader(str(path))] == [
        (datagram, [counter.encode()])
    ]


def test_a_ring_that_is_too_small(running: Running) -> None:
    """Nobody reads while a job runs: records without room are left out and counted. The ring wraps."""
    nic = running.fabric.nics[0].name
    before = settled(running)
    (path,) = listen.sockets_of([nic], running.fabric.name)
    with contextlib.closing(Tap(path, Wanted(TapFlag.PACKETS, units=MIN_UNITS))) as tap:
        found = 0
        for _ in range(4):
            allreduce(running)
            pieces = tap.take()
            assert all(len(piece) <= MIN_UNITS * UNIT for piece in pieces)
            kinds = [kind for piece in pieces for kind, _ in records(piece)]
            assert set(kinds) == {Record.RECEIVED, Record.SENT}
            found += len(kinds)
        counted = settled(running) - before
        found += sum(1 for piece in tap.take() for _ in records(piece))
        assert tap.missed > 0
        assert found + tap.missed == counted[nic, "tx"] + counted[nic, "rx"]


def test_a_reader_that_breaks_the_rules(running: Running) -> None:
    """An impossible consumer: the device stops recording, and works on."""
    (path,) = listen.sockets_of(["switch"], running.fabric.name)
    with contextlib.closing(Tap(path, PACKETS)) as tap:
        for lane in range(tap.lanes):
            place = tap._ring(lane) - tap._address + CONSUMER
            tap._memory[place : place + 4] = b"\xff\xff\xff\x7f"
        allreduce(running)
        assert tap.missed > 0
        assert tap.take() == [b""] * tap.lanes


def test_one_tap_at_a_time(running: Running) -> None:
    (path,) = listen.sockets_of(["switch"], running.fabric.name)
    with (
        contextlib.closing(Tap(path, PACKETS)),
        pytest.raises(ToolError, match=r"NO_RESOURCES: .* does not offer a tap; another"),
    ):
        Tap(path, PACKETS)
    Tap(path, PACKETS).close()


@pytest.mark.parametrize(
    "wanted",
    [
        Wanted(0),
        Wanted(TapFlag.ONE_JOB),
        Wanted(TapFlag.PACKETS | 8),
        Wanted(TapFlag.PACKETS, kinds=ALL_KINDS + 1),
        Wanted(TapFlag.PACKETS, units=MIN_UNITS + 1),
        Wanted(TapFlag.PACKETS, units=MIN_UNITS // 2),
        Wanted(TapFlag.PACKETS, units=1 << 31),
    ],
)
def test_requests_that_are_refused(running: Running, wanted: Wanted) -> None:
    (path,) = listen.sockets_of(["switch"], running.fabric.name)
    with pytest.raises(ToolError, match="INVALID_REQUEST"):
        Tap(path, wanted)


def fanin(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from fanin_tools.cli.app import main; main()", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


PROGRAM = """
import numpy, fanin
with fanin.Communicator() as communicator:
    communicator.allreduce(numpy.ones(70_001, "f4"))
"""


def test_the_command(running: Running, tmp_path: Path) -> None:
    """It lasts as long as the program behind it; a ring keeps the last packets."""
    name, path = running.fabric.name, tmp_path / "last.pcapng"
    run = "from fanin_tools.cli.app import main; main()", "run", "--name", name, "-n", "4", "--"
    options = ("--fabric", name, "-o", str(path), "-d", "switch", "--ring", "7", "--json")
    done = fanin("capture", *options, "--", sys.executable, "-c", *run, sys.executable, "-c", PROGRAM)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["packets"] == 7
    found = rows(path, "frame.interface_name", "fanin.kind")
    assert [row[0] for row in found] == ["switch"] * 7
    assert int(found[-1][1], 0) in (Opcode.LEAVE, Opcode.LEAVE_ACK)


def test_wrong_use(running: Running) -> None:
    name = running.fabric.name
    with pytest.raises(UsageError, match="no device nowhere; its devices: nic0, nic1, switch"):
        listen.sockets_of(["nowhere"], name)
    with pytest.raises(ToolError, match="NO_DEVICE: no fabric nowhere is up"):
        listen.sockets_of([], "nowhere")
    with pytest.raises(UsageError, match="no kind of packet letter; the kinds: contribution, result"):
        listen.kinds_of(["result", "letter"])
    assert listen.sockets_of(["/a/b"], "nowhere") == [Path("/a/b")]
    done = fanin("capture", "--fabric", name, "-o", "/dev/null", "--", "/nowhere/program")
    assert done.returncode == 2
    assert "/nowhere/program can not be started" in done.stderr

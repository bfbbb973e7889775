"""Golden packets in a capture, read by plain Wireshark: well-formed RoCEv2 with an opcode that it does not know."""

import json
import shutil
import subprocess

import pytest
from scapy.layers.inet import IP
from scapy.layers.l2 import Ether
from scapy.utils import rdpcap, wrpcap

from fanin_wire.golden import vectors
from fanin_wire.icrc import verify

# Field of the BTH: its name in Wireshark
TSHARK_NAMES = {
    "opcode": "opcode",
    "dqpn": "destqp",
    "padcount": "padcnt",
    "pkey": "p_key",
    "psn": "psn",
    "ackreq": "a",
}


@pytest.fixture(scope="module")
def capture(tmp_path_factory):
    path = tmp_path_factory.mktemp("capture") / "golden.pcap"
    link = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
    wrpcap(str(path), [link / IP(golden.packet) for golden in vectors()])
    return path


def tshark(capture, *options: str) -> str:
    """tshark's output for a capture; skips without tshark."""
    if shutil.which("tshark") is None:
        pytest.skip("tshark is not installed")
    command = ["tshark", "-r", str(capture), *options]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout


@pytest.fixture(scope="module")
def frames(capture):
    return [frame["_source"]["layers"] for frame in json.loads(tshark(capture, "-T", "json", "--no-duplicate-keys"))]


@pytest.fixture(scope="module")
def summaries(capture):
    return tshark(capture).splitlines()


def test_scapy_reads_the_capture(capture):
    packets = [bytes(frame[IP]) for frame in rdpcap(str(capture))]
    assert packets == [golden.packet for golden in vectors()]
    assert all(map(verify, packets))


@pytest.mark.process
@pytest.mark.parametrize("golden", vectors(), ids=lambda golden: golden.name)
def test_tshark_sees_well_formed_rocev2(frames, golden):
    layers = frames[vectors().index(golden)]
    assert "_ws.malformed" not in layers
    base = layers["infiniband"]["infiniband.bth_tree"]
    read = {field: int(base[f"infiniband.bth.{name}"], 0) for field, name in TSHARK_NAMES.items()}
    assert read == {field: golden.value("BTH", field) for field in TSHARK_NAMES}


@pytest.mark.process
@pytest.mark.parametrize("golden", vectors(), ids=lambda golden: golden.name)
def test_tshark_does_not_know_the_opcodes_of_the_offload(summaries, golden):
    summary = summaries[vectors().index(golden)]
    assert "RRoCE" in summary
    assert ("Unknown OpCode" in summary) == ("CETH" in golden.headers)

"""--pcap: every packet of a run, as Wireshark reads it."""

import json
from pathlib import Path

import pytest
from scapy.utils import PcapNgReader
from typer.testing import CliRunner

from fanin_tools.cli.app import app
from fanin_tools.errors import UsageError
from tests.dissector import tshark

GOOD = "1"  # fanin.icrc.status
SCRIPTS = ["segments/the_sum_of_three", "recovery/need"]


@pytest.fixture(params=["engine", "reference"])
def capture(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, list[dict[str, object]]]:
    """A capture of a target in virtual time, or over UDP, and the command's report of the scripts."""
    file = tmp_path / "packets.pcapng"
    done = CliRunner().invoke(app, ["conform", "--target", request.param, "--pcap", str(file), "--json", *SCRIPTS])
    assert done.exit_code == 0, done.output
    return file, json.loads(done.stdout)["scripts"]


@pytest.mark.process
def test_wireshark_reads_it(capture: tuple[Path, list[dict[str, object]]]) -> None:
    """Each packet has the name of its script. Sums and ICRCs are right; answers follow their questions."""
    file, _ = capture
    rows = tshark.rows(file, "frame.comment", "fanin.icrc.status", "frame.time_delta")
    assert {row[0] for row in rows} == set(SCRIPTS)
    assert all(row[1] == GOOD and float(row[2]) >= 0 for row in rows)
    assert tshark.tshark(file, "-o", "ip.check_checksum:TRUE", "-Y", "_ws.malformed || ip.checksum.status == 0") == ""


@pytest.mark.process
def test_every_packet_of_a_script_is_there(capture: tuple[Path, list[dict[str, object]]]) -> None:
    file, entries = capture
    with PcapNgReader(str(file)) as packets:
        found = [bytes(packet.comment).decode() for packet in packets]
    for entry in entries:
        packets_of_log = entry["packets"]
        assert isinstance(packets_of_log, list)
        assert found.count(str(entry["script"])) >= len(packets_of_log) + 8  # and those of the fence


@pytest.mark.unit
def test_a_file_that_can_not_be_written_is_named_first(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["conform", "--pcap", str(tmp_path / "none/x.pcapng"), "recovery/need"])
    assert isinstance(done.exception, UsageError)
    assert "none/x.pcapng" in str(done.exception)

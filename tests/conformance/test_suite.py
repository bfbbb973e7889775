"""The suite passes the software switch, fails each faulty device in the broken demand, and says why."""

import json
import shlex
import socket
import threading
from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from fanin_conform import coverage, listener, report, suite
from fanin_conform.faults import FAULTS, Fault, FaultyTarget, losing
from fanin_conform.listener import NoFaninDevice
from fanin_conform.mutants import MUTANTS, Mutant, StaleMutant, faulty_switch
from fanin_conform.nic_faults import NIC_FAULTS
from fanin_conform.script import script
from fanin_conform.targets import opening, rtl
from fanin_conform.targets.engine import EngineNicTarget, EngineTarget
from fanin_conform.targets.reference import ReferenceTarget
from fanin_conform.targets.target import Target
from fanin_conform.targets.udp import UdpTarget
from fanin_tools.cli.app import app
from fanin_wire.clauses import UnknownClause
from fanin_wire.fields import UDP_PORT, Opcode
from tests.conformance.addresses import loopback_block
from tests.waiting import BOUND_S

NO_SCRIPT = coverage.NO_SCRIPT
PAGE = Path(__file__).parents[2] / "docs/conformance.md"


def ignore(verdict: suite.Verdict) -> None:
    """Of no interest."""


def test_the_engine_passes() -> None:
    verdicts = suite.run(EngineTarget(suite.ADDRESSES), suite.chosen([]), 1, ignore)
    assert [(each.script.name, each.text) for each in verdicts if each.outcome == suite.FAILED] == []
    not_run = {each.script.name for each in verdicts if each.outcome == suite.NOT_RUN}
    lanes = {"lanes/jobs_of_two_lanes_do_not_meet", "lanes/the_last_lane"}  # it is one
    assert not_run == {each.name for each in suite.chosen([]) if "port" in each.needs} | lanes
    assert len(verdicts) - len(not_run) > 60


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_faulty_device_fails_in_the_demand_that_it_breaks(fault: Fault) -> None:
    naming = [each for each in suite.chosen([]) if fault.clause in each.clauses and "port" not in each.needs]
    if fault.clause in coverage.EVERY_PACKET:
        naming = suite.chosen(["segments/", "recovery/", "limits/"])
    assert naming
    verdicts = suite.run(FaultyTarget(EngineTarget(suite.ADDRESSES), fault), naming, 1, ignore)
    failed = {number for each in verdicts if each.outcome == suite.FAILED for number in each.clauses}
    assert fault.clause in failed


@pytest.mark.parametrize("fault", MUTANTS, ids=lambda fault: fault.name)
def test_a_switch_with_a_wrong_line_fails_in_the_demand_that_it_breaks(fault: Mutant) -> None:
    naming = [each for each in suite.chosen([]) if fault.clause in each.clauses]
    assert naming
    with faulty_switch(fault) as kind:
        target = ReferenceTarget(suite.ADDRESSES, kind)
        verdicts = (suite.run(target, [each], 1, ignore)[0] for each in naming)
        assert any(each.outcome == suite.FAILED and fault.clause in each.clauses for each in verdicts)


def test_a_line_that_is_not_there() -> None:
    with pytest.raises(StaleMutant, match="0 times in spec"), faulty_switch(Mutant("", "", "spec", "?!", "")):
        pass


def test_a_failure_says_all_that_one_needs() -> None:
    fault = next(fault for fault in FAULTS if fault.clause == "7.1-10")
    target = FaultyTarget(EngineTarget(suite.ADDRESSES), fault)
    (verdict,) = suite.run(target, suite.chosen(["segments/contributions_are_added"]), 5, ignore)
    text = report.failure_text(verdict, "the command for {}".format)
    for part in ("7.1-10", "> device: CONTRIBUTION", "expected to", "seen     RESULT", "contributions is 0, not 12"):
        assert part in text
    for part in ("op=SUM dtype=F32 flags=ALL|HAS_DATA|WANTS_RESULT", "status=PENDING", "] 1 f32"):
        assert part in text
    assert "again: the command for segments/contributions_are_added" in text
    junit = ElementTree.fromstring(report.junit([verdict], "engine", str))
    assert junit.get("failures") == "1"
    assert junit.find("testcase/failure").get("message") == "7.1-10"
    (entry,) = report.as_dict([verdict], "engine", 5, str)["scripts"]
    assert (entry["outcome"], entry["failed_clauses"]) == ("failed", ["7.1-10"])


def test_the_command_names_the_scripts_that_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    fault = next(fault for fault in FAULTS if fault.clause == "7.1-10")
    monkeypatch.setattr(opening, "open_target", lambda *_, **__: FaultyTarget(EngineTarget(suite.ADDRESSES), fault))
    found = CliRunner().invoke(app, ["conform", "segments/contributions_are_added"])
    assert found.exit_code == 1
    assert "NOT_CONFORMING: 1 of 1 scripts failed: segments/contributions_are_added" in found.stderr
    assert "expected to" in found.stdout


@pytest.mark.parametrize(
    ("target", "fault", "more", "name"),
    [
        (EngineTarget, FAULTS[1], ["--target", "udp://192.0.2.1", "--group", "239.0.0.9"], "segments/the_sum_of_three"),
        (
            EngineNicTarget,
            NIC_FAULTS[0],
            ["--target", "nic://192.0.2.1", "--agent", "ssh root@192.0.2.1 agent"],
            "nic_segments/several_ranks",
        ),
    ],
)
def test_the_command_to_run_again_has_all_options(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, target: type[Target], fault: Fault, more: list[str], name: str
) -> None:
    """Except those that would overwrite the results of this run. It gives the same failure."""
    opened: list[tuple[object, ...]] = []

    def open_faulty(*place: object, **_: object) -> Target:
        opened.append(place)
        return FaultyTarget(target(suite.ADDRESSES), fault)

    monkeypatch.setattr(opening, "open_target", open_faulty)
    profile, verdicts = tmp_path / "of mine.toml", tmp_path / "verdicts.xml"
    profile.write_text(f'role = "{"nic" if target is EngineNicTarget else "switch"}"\nahead = false')
    given = [*more, "--local", "192.0.2.9", "--profile", str(profile), "--seed", "5"]
    first = CliRunner().invoke(app, ["conform", *given, "--junit", str(verdicts), name])
    (again,) = [line.removeprefix("again: ") for line in first.stdout.splitlines() if line.startswith("again: ")]
    assert again in verdicts.read_text()
    words = shlex.split(again)
    assert (words[:2], words[-1]) == (["fanin", "conform"], name)
    assert dict(zip(words[2:-1:2], words[3::2], strict=False)) == dict(zip(given[::2], given[1::2], strict=True))
    assert CliRunner().invoke(app, words[1:]).stdout == first.stdout
    assert opened[0] == opened[1]


@pytest.mark.parametrize(("longest", "outcome"), [(10.0, suite.FAILED), (-10.0, suite.PASSED)])
def test_a_failure_while_the_tester_stood_still_is_repeated(
    monkeypatch: pytest.MonkeyPatch, longest: float, outcome: str
) -> None:
    monkeypatch.setattr(listener, "STALL_S", longest)
    lost: list[bytearray] = []

    def lose_one(data: bytearray) -> bytearray | None:
        if data[0] != Opcode.RESULT or lost:
            return data
        lost.append(data)
        return None

    target = FaultyTarget(EngineTarget(suite.ADDRESSES), Fault("one result is lost", "7.2-4", outward=lose_one))
    (verdict,) = suite.run(target, suite.chosen(["segments/the_sum_of_three"]), 1, ignore)
    assert (verdict.outcome, len(lost)) == (outcome, 1)


def test_scripts_that_wait_run_beside_the_others() -> None:
    """At separate targets. A failure there that passes alone counts as passed."""
    fault = Fault("nothing ends", "11-15", outward=losing(Opcode.ABORT))
    opened: list[int] = []

    def beside(number: int) -> Target:
        opened.append(number)
        return FaultyTarget(EngineTarget(suite.ADDRESSES), fault)

    scripts = suite.chosen(["segments/the_sum_of_three", "silence/"])
    waiting = [each for each in scripts if each.waits]
    assert 0 < len(waiting) < len(scripts)
    verdicts = suite.run(EngineTarget(suite.ADDRESSES), scripts, 1, ignore, beside=beside)
    assert [(each.script, each.outcome) for each in verdicts] == [(each, suite.PASSED) for each in scripts]
    assert sorted(opened) == list(range(1, 1 + min(suite.BESIDE, len(waiting))))


def test_an_echo_server_is_no_device() -> None:
    """And its user hears so at once, by name."""
    block = loopback_block()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind((f"{block}.200", UDP_PORT))
        server.settimeout(BOUND_S)
        echo = threading.Thread(target=lambda: server.sendto(*server.recvfrom(1 << 16)))
        echo.start()
        target = UdpTarget(f"{block}.200", f"{block}.1", suite.ADDRESSES)
        with pytest.raises(NoFaninDevice, match=f"{block}.200"):
            suite.run(target, suite.chosen(["forming"]), 1, ignore)
        echo.join()
        target.close()


def test_the_command() -> None:
    good = CliRunner().invoke(app, ["conform", "recovery/need", "--json"])
    assert good.exit_code == 0
    (entry,) = json.loads(good.stdout)["scripts"]
    assert (entry["script"], entry["outcome"]) == ("recovery/need", "passed")
    for wrong in (
        ["nonsense"],
        ["--target", "nonsense"],
        ["--target", "udp://nonsense"],
        ["--target", "udp://192.0.2.1"],
        ["--local", "127.0.0.9"],  # what the run would ignore
        ["--target", "switch", "--group", "239.0.0.1"],
        ["--target", "switch", "--agent", "true"],
        ["--conversations", "1", "--junit", "/dev/null"],
        ["--conversations", "1", "segments"],
    ):
        assert CliRunner().invoke(app, ["conform", *wrong]).exit_code == 2, wrong


@pytest.mark.parametrize(
    ("name", "group", "cause", "remedy"),
    [
        ("tcp://127.0.0.1", "", "not a target", "udp://"),
        ("udp://127.0.0", "", "4 octets", "192.0.2.1"),
        ("udp://192.0.2.1", "", "not on this host", "--local"),
        ("udp://127.0.0.1", "10.0.0.1", "not a multicast address", "--group"),
    ],
)
def test_a_target_that_can_not_be_opened(name: str, group: str, cause: str, remedy: str) -> None:
    with pytest.raises(opening.TargetInvalid, match=cause) as raised:
        opening.open_target(name, "", suite.ADDRESSES, group)
    assert remedy in raised.value.remedy


def test_the_switch_in_verilog_is_where_the_checkout_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(rtl, "FOLDER", tmp_path)
    with pytest.raises(opening.TargetInvalid, match="is missing") as raised:
        opening.open_target("rtl", "", suite.ADDRESSES)
    assert "checkout" in raised.value.remedy
    done = CliRunner().invoke(app, ["conform", "--target", "rtl"])
    assert done.exit_code == 2
    assert "is missing" in done.output


def test_a_script_names_demands_that_there_are() -> None:
    with pytest.raises(UnknownClause):
        script("5-99")


def test_every_demand_has_a_script_or_a_reason() -> None:
    """A reason belongs to an existing demand without a script."""
    rows = coverage.checked()
    assert [number for number in coverage.CAN_NOT if rows[number]] == []
    assert {number for number, names in rows.items() if not names and coverage.reason(number) == NO_SCRIPT} == set()


def test_the_page_has_the_tables() -> None:
    text = PAGE.read_text()
    assert coverage.with_tables(text) == text, "python -m fanin_conform.coverage docs/conformance.md"
    assert "recovery/need" in coverage.checked()["8-17"]
    assert f"| 13-1 to 13-5 | {coverage.SECTIONS['13']} |" in text


def test_the_scripts_of_a_demand_are_listed() -> None:
    (line,) = coverage.listing(["8-17"]).splitlines()
    assert line.startswith("8-17: ")
    assert "recovery/need" in line
    assert len(coverage.listing(["13"]).splitlines()) == 5
    assert len(coverage.listing([]).splitlines()) == len(coverage.checked())
    with pytest.raises(UnknownClause):
        coverage.listing(["99"])

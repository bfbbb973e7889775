"""The command `fanin sim`: its options, tables, JSON and traces."""

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from fanin_sim.findings import Category, Finding
from fanin_sim.fuzz import FuzzTally
from fanin_sim.scenario.scenario import Scenario, ScenarioInvalid
from fanin_tools.cli import fuzz
from fanin_tools.cli.app import app
from fanin_tools.cli.sim import parse_fanout, parse_rate
from fanin_tools.errors import UsageError

SMALL = ["sim", "--fanout", "2x3", "--bytes", "8K", "--chunk", "1024", "--slots", "16"]


def test_tables() -> None:
    done = CliRunner().invoke(app, SMALL)
    assert done.exit_code == 0, done.output
    for part in ("allreduce on 6 nodes", "6 and 3", "top switch", "level", "down"):
        assert part in done.stdout


def test_json() -> None:
    done = CliRunner().invoke(app, [*SMALL, "--collective", "broadcast", "--jobs", "2", "--json"])
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert told["scenario"]["collective"] == "broadcast"
    assert len(told["report"]["finished"]) == 2
    assert {line["direction"] for line in told["report"]["links"]} == {"up", "down"}
    assert set(told["report"]["occupancy"][0]) == {"time", "top switch", "switches of level 1", "NICs"}


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--op", "minloc"], "MINLOC of f32 is not supported"),
        (["--op", "add"], "'ADD' is not supported (sum?); supported: SUM"),
        (["--dtype", "f8"], "'f8' is not supported; supported: f32"),
        (["--collective", "alltoall"], "collective 'alltoall'; use one of allreduce, reduce"),
        (["--reproducible", "yes"], "reproducible 'yes'; use one of none, run, shape"),
        (["--route", "mesh"], "route 'mesh'; use one of tree, ring"),
        (["--fanout", "direct"], "route tree needs switches; give a fan-out"),
        (["--nodes", "7"], "; choose a fan-out and a number of nodes that fit"),
        (["--chunk", "1000"], "chunk 1000 is not a power of two; use for example"),
        (["--bytes", "3"], "a message of 3 bytes; use at least 4 bytes, an element of f32"),
        (
            ["--bytes", "20", "--collective", "gather"],
            "20 bytes; use at least 24 bytes, 6 elements of f32, one for each",
        ),
        (
            ["--bytes", "28", "--collective", "gather"],
            "28 bytes leaves some of 6 ranks without a block; use a multiple",
        ),
    ],
)
def test_wrong_options_are_refused_by_name(options: list[str], text: str) -> None:
    done = CliRunner().invoke(app, [*SMALL, *options])
    assert done.exit_code == 2
    assert "INVALID_REQUEST" in done.stderr
    assert text in done.stderr


def test_least_slots_are_those_that_a_device_leases() -> None:
    with pytest.raises(ScenarioInvalid, match="2 slots"):
        Scenario((2,), 2, slots=2).check()


@pytest.mark.process
def test_wrong_options_are_refused_before_the_engine_is_loaded() -> None:
    code = """
import sys
from fanin_sim.scenario.scenario import Scenario, ScenarioInvalid
try:
    Scenario((2,), 2, collective="alltoall").check()
except ScenarioInvalid:
    sys.exit(bool({"numba", "fanin_nic.engine"} & sys.modules.keys()))
"""
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_barrier_has_no_bytes() -> None:
    assert CliRunner().invoke(app, [*SMALL, "--bytes", "0", "--collective", "barrier"]).exit_code == 0


def test_one_element_is_enough_for_all() -> None:
    done = CliRunner().invoke(app, [*SMALL, "--bytes", "4", "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["report"]["packets"] > 0


def test_fanout() -> None:
    assert parse_fanout("4x8x8") == (4, 8, 8)
    assert parse_fanout("direct") == ()
    for wrong in ("", "4x", "x4", "0x4", "4*4"):
        with pytest.raises(UsageError):
            parse_fanout(wrong)


@pytest.mark.parametrize(
    ("text", "bits"), [("100gbit", 10**11), ("2.5G", 2_500_000_000), ("400mbit", 400_000_000), ("0", 0), ("7", 7)]
)
def test_rate(text: str, bits: int) -> None:
    assert parse_rate(text) == bits


def test_wrong_rate() -> None:
    with pytest.raises(UsageError):
        parse_rate("fast")


def test_fuzz_tables() -> None:
    done = CliRunner().invoke(app, ["sim", "--fuzz", "--seconds", "0.5", "--processes", "1"])
    assert done.exit_code == 0, done.output
    for part in ("schedules", "wrong results", "reordering", "uses of a slot"):
        assert part in done.stdout


def test_fuzz_json() -> None:
    done = CliRunner().invoke(app, ["sim", "--fuzz", "--seconds", "0.5", "--processes", "1", "--json"])
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert told["schedules"] > 0
    assert told["faults"]["LOSS"] > 0
    assert told["findings"] == []
    assert set(told["defects"].values()) == {0}
    assert told["distributions"]["nodes"]["min"] == 1


def test_trace_of_a_seed() -> None:
    first, second = (CliRunner().invoke(app, ["sim", "--seed", "12", "--trace"]) for _ in range(2))
    assert first.exit_code == 0, first.output
    assert first.stdout == second.stdout
    lines = first.stdout.splitlines()
    assert lines[0].startswith("seed 12: ")
    assert any("CONTRIBUTION" in line and "arrives at" in line for line in lines)


def test_a_finding_is_printed_and_fails_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    finding = Finding(
        Category.WRONG_RESULT, "seed 7: a switch", "fanin sim --seed 7 --trace", 7, ("LOSS: here", "at last")
    )
    broken = FuzzTally(findings=[finding])
    monkeypatch.setattr(fuzz, "prepare", lambda: None)
    monkeypatch.setattr(fuzz, "run", lambda seconds, seed, processes, schedules, tell: broken)
    told = CliRunner().invoke(app, ["sim", "--fuzz"])
    assert told.exit_code == 1
    for part in ("seed 7: a switch", "LOSS: here", "at last"):
        assert part in told.stdout
    assert "SIMULATION_FAILED" in told.stderr
    assert "--seed 7 --trace" in told.stderr
    as_json = CliRunner().invoke(app, ["sim", "--fuzz", "--json"])
    assert as_json.exit_code == 1
    assert json.loads(as_json.stdout)["defects"]["wrong_results"] == 1


def test_trace_is_no_json() -> None:
    done = CliRunner().invoke(app, ["sim", "--trace", "--json"])
    assert done.exit_code == 2


@pytest.mark.process
@pytest.mark.parametrize("kind", ["--fuzz", "--rdma"])
def test_a_number_of_schedules(kind: str) -> None:
    """Exactly so many, shared among processes; or fewer, if the time ends before."""
    done = CliRunner().invoke(app, ["sim", kind, "--schedules", "7", "--processes", "2", "--json"])
    assert json.loads(done.stdout)["schedules"] == 7
    done = CliRunner().invoke(app, ["sim", kind, "--schedules", "1000000", "--seconds", "0.2", "--json"])
    assert 0 < json.loads(done.stdout)["schedules"] < 1_000_000


@pytest.mark.parametrize(
    ("words", "refused"),
    [
        ("--trace --fanout 2x2 --bytes 1M --loss 0.1", "--fanout, --bytes, --loss can not be used with --trace"),
        ("--trace --rdma --seconds 5", "--seconds can not be used with --trace"),
        ("--trace --fuzz", "--fuzz can not be used with --trace"),
        ("--fuzz --fanout 2x2", "--fanout can not be used with --fuzz"),
        ("--rdma --collective reduce", "--collective can not be used with --rdma"),
        ("--rdma --fuzz --loss 0.1", "--loss can not be used with --fuzz"),
        ("--fanout 2x2 --schedules 5", "--schedules can not be used without --fuzz"),
        ("--processes 1", "--processes can not be used without --fuzz"),
    ],
)
def test_options_of_another_way_to_simulate_are_refused(words: str, refused: str) -> None:
    """Ignored options would silently run another simulation."""
    done = CliRunner().invoke(app, ["sim", *words.split()])
    assert done.exit_code == 2
    assert refused in done.stderr

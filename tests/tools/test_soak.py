"""The soak tool: counters, findings, report, and one short round of real faults."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fanin_sim import fuzz as schedule_fuzzer
from fanin_sim.findings import Category, Finding
from fanin_sim.fuzz import FuzzTally
from fanin_tools.bench import loss_report
from fanin_tools.bench.loss import Row
from fanin_tools.bench.plot import require_plot
from fanin_tools.cli.app import app
from fanin_tools.errors import ToolError, UsageError
from fanin_tools.stress.faults import resource_leaks, rounds
from fanin_tools.stress.faults.fault_kinds import KINDS, is_of_rank
from fanin_tools.stress.fuzz import run as fuzz_run
from fanin_tools.stress.soak import run
from fanin_tools.stress.soak.run import fuzz, simulate
from fanin_tools.stress.tally import MAX_FINDINGS, Tally, Work


@pytest.mark.parametrize("violation", Category)
def test_any_violation_makes_a_run_unclean(violation: Category) -> None:
    tally = Tally(1)
    assert tally.is_clean
    tally.find(violation, "something")
    assert not tally.is_clean
    assert tally.as_dict()[violation.value] == 1
    assert "NOT CLEAN" in run.table(tally).title
    assert sum(is_violation for _, _, is_violation in run.rows(tally)) == 1


def test_table_names_skipped_rounds_and_how_to_repeat_a_finding() -> None:
    tally = Tally(1, faults=Counter({"NIC killed": 2}), not_done={"faults of links": "root, nft"})
    tally.begin("fanin soak --replay 9", "NIC killed, ring, 16 MiB")
    tally.find(Category.HANG, "ranks 3 hang")
    assert ("real faults", "nic killed 2", False) in run.rows(tally)
    assert ("not done: faults of links", "this machine lacks root, nft", False) in run.rows(tally)
    (line,) = run.findings(tally)
    assert "NIC killed, ring, 16 MiB: ranks 3 hang" in line
    assert "fanin soak --replay 9" in line
    json.dumps(tally.as_dict())


def test_only_the_first_findings_of_each_run_are_kept_and_all_are_counted() -> None:
    tally = Tally(1)
    for seed in (4, 5):
        tally.begin(f"fanin soak --replay {seed}")
        for _ in range(MAX_FINDINGS + 1):
            tally.find(Category.OTHER, "again", count=2)
    assert tally.violations == {Category.OTHER: 4 * (MAX_FINDINGS + 1)}
    assert [finding.replay[-1] for finding in tally.findings] == ["4"] * MAX_FINDINGS + ["5"] * MAX_FINDINGS


@pytest.mark.parametrize("category", [Category.WRONG_RESULT, Category.HANG, Category.OTHER])
def test_finding_of_a_simulated_schedule_is_kept_with_its_replay(
    category: Category, monkeypatch: pytest.MonkeyPatch
) -> None:
    finding = Finding(category, "two trees", "fanin sim --seed 7 --trace", 7, ("a NIC crashes",))
    found = FuzzTally(findings=[finding])
    found.counts["schedules"] = 3
    monkeypatch.setattr(schedule_fuzzer, "run", lambda *_: found)
    tally = Tally(1)
    simulate(0, 7, tally)
    assert tally.work[Work.SCHEDULES] == 3
    assert tally.violations == {category: 1}
    assert tally.findings == [finding]


@pytest.mark.parametrize(("seconds", "replayed"), [(0.2, 1), (12.0, 12), (12.4, 13)])
def test_malformed_input_is_replayed_for_at_least_its_own_time(
    seconds: float, replayed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fuzz_run, "attack_transports", lambda seconds, seed, tally: None)
    monkeypatch.setattr(fuzz_run, "attack_engines", lambda seconds, seed, tally: tally.find(Category.OTHER, "first"))
    monkeypatch.setattr(fuzz_run, "attack_fabric", lambda seconds, seed, tally: None)
    tally = Tally(1)
    fuzz(seconds, 9, tally)
    command = f"python -m fanin_tools.stress.fuzz --seconds {replayed} --seed 9"
    assert [(finding.description, finding.replay) for finding in tally.findings] == [("first", command)]


def test_kinds_take_turns_from_seeds_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, int]] = []
    monkeypatch.setattr(run, "simulate", lambda seconds, seed, tally: seen.append(("simulation", seed)))
    monkeypatch.setattr(run, "fuzz", lambda seconds, seed, tally: seen.append(("fuzzing", seed)))
    run.soak(0.01, 7, ("simulation", "fuzzing"), lambda what, share: None)
    assert seen[:3] == [("simulation", 7), ("simulation", 7), ("fuzzing", 7)]  # the first one compiles
    assert all(seed == 7 + cycle // 2 * run.SEEDS_PER_CYCLE for cycle, (_, seed) in enumerate(seen[1:]))


def test_only_known_kinds() -> None:
    result = CliRunner().invoke(app, ["soak", "--kinds", "weather", "--json"])
    assert result.exit_code == UsageError.EXIT_CODE
    assert json.loads(result.stdout)["error"]["name"] == "INVALID_REQUEST"


@pytest.fixture
def fault_rounds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tally]:
    """Two rounds on real devices: a rank is killed, a NIC is killed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("soak")))
        patch.setattr(rounds, "MEBIBYTES", (1,))
        patch.setattr(rounds, "MAX_DELAY_SECONDS", 0.01)
        with rounds.fabric() as running:
            playing = rounds.FaultRounds(running, Tally(3))
            for name in ("rank killed", "NIC killed"):
                patch.setattr(rounds, "KINDS", [kind for kind in KINDS if kind.name == name])
                playing.run_round(3)
            yield playing.tally


@pytest.mark.process
def test_rounds_of_real_faults_end_as_promised(fault_rounds: Tally) -> None:
    assert (dict(fault_rounds.violations), fault_rounds.findings) == ({}, [])
    assert fault_rounds.faults == Counter({"rank killed": 1, "NIC killed": 1})
    assert fault_rounds.work[Work.RIGHT_RESULTS] + fault_rounds.errors.total() == (rounds.RANKS - 1) + rounds.RANKS
    assert set(fault_rounds.errors) <= {"PeerLost", "DeviceLost"}


def test_every_kind_of_fault_is_of_a_rank_or_can_be_inflicted() -> None:
    assert len({kind.name for kind in KINDS}) == len(KINDS)
    assert {kind.name for kind in KINDS if is_of_rank(kind)} == {"rank killed", "rank stopped"}
    fatal = {"rank killed", "NIC killed", "switch killed", "NIC stopped for long"}
    assert {kind.name for kind in KINDS if kind.is_fatal} == fatal


def test_growth_counts_files_and_memory_above_the_usual(monkeypatch: pytest.MonkeyPatch) -> None:
    held = {"files": 10, "bytes": 100 << 20}
    monkeypatch.setattr(resource_leaks, "open_descriptors", lambda process: held["files"])
    monkeypatch.setattr(resource_leaks, "resident", lambda process: held["bytes"])
    monkeypatch.setattr(resource_leaks, "RELEASE_SECONDS", 0.0)
    running, growth = FakeRunning(), resource_leaks.ResourceGrowth()
    for _ in range(resource_leaks.SETTLED):
        held["bytes"] += resource_leaks.GROWTH  # that every device touches once
        assert growth.measure(running) == ({}, {})  # type: ignore[arg-type]
    held["files"] += 1
    held["bytes"] += resource_leaks.GROWTH + 1
    assert growth.measure(running) == ({"nic0": 1}, {"nic0": resource_leaks.GROWTH + 1})  # type: ignore[arg-type]
    assert growth.measure(running) == ({}, {})  # type: ignore[arg-type]


class FakeRunning:
    """A fabric of one device."""

    @property
    def state(self) -> FakeRunning:
        return self

    def processes(self) -> dict[str, str]:
        """As FabricState.processes."""
        return {"nic0": "a process"}


# Goodput against loss


ROWS = [
    Row(route, rate, 100.0, 200.0, 160e6, 0.9, 30, 80, 15) for route in ("tree", "ring") for rate in (0, 1, 10, 50, 100)
]


def test_loss_as_a_table_for_the_documentation() -> None:
    text = loss_report.markdown(ROWS, 16 << 20)
    assert "| tree | 0.1 % | 100 ms | 200 ms | 152.6 MiB/s | 90% | 30 | 80 | 15 |\n" in text
    assert text.count("| ring |") == 5


@pytest.mark.process
def test_plot_and_table_lie_beside_each_other(tmp_path: Path) -> None:
    loss_report.save(ROWS, 16 << 20, tmp_path / "loss.png")
    assert (tmp_path / "loss.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "loss.md").read_text() == loss_report.markdown(ROWS, 16 << 20)


def test_plot_without_the_library_says_what_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.backend_bases", None)
    with pytest.raises(ToolError) as raised:
        require_plot([tmp_path / "loss.png"])
    assert raised.value.name == "NOT_SUPPORTED"


@pytest.mark.process
def test_bench_refuses_options_before_its_subcommand() -> None:
    result = CliRunner().invoke(app, ["bench", "--peers", ".", "loss"])
    assert result.exit_code == UsageError.EXIT_CODE

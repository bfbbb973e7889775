"""The soak tool: what is counted, what is found, how it is told; and one short round of real faults."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fanin_tools.bench import loss_report
from fanin_tools.bench.loss import Row
from fanin_tools.bench.plot import require_plot
from fanin_tools.cli.app import app
from fanin_tools.errors import ToolError, UsageError
from fanin_tools.stress.faults import resource_leaks, rounds
from fanin_tools.stress.faults.fault_kinds import KINDS, is_of_rank
from fanin_tools.stress.faults.tally import Tally as FaultTally
from fanin_tools.stress.fuzz.tally import Tally as HostileTally
from fanin_tools.stress.soak import report, run
from fanin_tools.stress.soak.rounds import Strikes, fuzz
from fanin_tools.stress.tally import Finding, Tally

ZEROS = ("wrong_results", "hangs", "other_violations", "leaked_slots", "leaked_files", "leaked_memory")


@pytest.mark.parametrize("name", ZEROS)
def test_anything_that_is_not_zero_is_not_clean(name: str) -> None:
    tally = Tally(1)
    assert tally.is_clean
    setattr(tally, name, 1)
    assert not tally.is_clean
    assert "NOT CLEAN" in report.table(tally).title


def test_table_says_what_could_not_be_done_and_how_to_repeat_what_was_found() -> None:
    tally = Tally(1, faults=Counter({"NIC killed": 2}), not_done={"faults of links": "root, nft"})
    tally.findings.append(Finding("ranks 3 hang", "fanin soak --replay 9"))
    assert ("real faults", "nic killed 2") in report.rows(tally)
    assert ("not done: faults of links", "this machine lacks root, nft") in report.rows(tally)
    (line,) = report.findings(tally)
    assert "ranks 3 hang" in line
    assert "fanin soak --replay 9" in line
    json.dumps(tally.as_dict())


class PlayedRounds:
    """Rounds that find something each time."""

    def __init__(self) -> None:
        self.tally = FaultTally()
        self.seeds: list[int] = []

    def play(self, seed: int) -> None:
        """As Rounds.play."""
        self.seeds.append(seed)
        self.tally.begin(seed, "packets lost, ring, 16 MiB", "packets lost")
        self.tally.result(1)
        self.tally.result(0)
        self.tally.error("PeerLost", is_due=True)
        self.tally.error("PeerLost", is_due=False)
        self.tally.hang([2, 3])
        self.tally.crash("nic0")
        self.tally.failure(ValueError("what now?"))
        self.tally.leak("slots", {"nic0": 1})
        self.tally.packets_lost += 5


def test_findings_of_real_faults_are_added_once_with_the_seed_of_their_round() -> None:
    played, tally = PlayedRounds(), Tally(1)
    strike = Strikes(played)  # type: ignore[arg-type]
    strike(0, 40, tally)
    strike(0, 50, tally)
    assert played.seeds == [40, 50]
    assert (tally.rounds, tally.wrong_results, tally.hangs, tally.leaked_slots) == (2, 2, 4, 2)
    assert (tally.messages, tally.packets_lost, tally.other_violations) == (2, 10, 6)
    assert played.tally.errors == {"PeerLost": 2}
    replays = [finding.replay for finding in tally.findings]
    assert replays == ["fanin soak --replay 40"] * 6 + ["fanin soak --replay 50"] * 6


@pytest.mark.parametrize(("seconds", "told"), [(0.2, 1), (12.0, 12), (12.4, 13)])
def test_hostile_input_is_replayed_for_no_less_than_it_took(
    seconds: float, told: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = HostileTally(9, findings=["a device has ended"])
    monkeypatch.setattr("fanin_tools.stress.fuzz.run.run", lambda seconds, seed: found)
    tally = Tally(1)
    fuzz(seconds, 9, tally)
    assert [each.replay for each in tally.findings] == [f"python -m fanin_tools.stress.fuzz --seconds {told} --seed 9"]


def test_kinds_take_turns_from_seeds_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, int]] = []
    monkeypatch.setattr(run, "simulate", lambda seconds, seed, tally: seen.append(("simulation", seed)))
    monkeypatch.setattr(run, "fuzz", lambda seconds, seed, tally: seen.append(("fuzzing", seed)))
    run.soak(0.01, 7, ("simulation", "fuzzing"), lambda what, share: None)
    assert seen[:3] == [("simulation", 7), ("simulation", 7), ("fuzzing", 7)]  # the first one compiles
    assert all(seed == 7 + lap // 2 * run.SEEDS_OF_A_LAP for lap, (_, seed) in enumerate(seen[1:]))


def test_only_known_kinds() -> None:
    result = CliRunner().invoke(app, ["soak", "--kinds", "weather", "--json"])
    assert result.exit_code == UsageError.EXIT_CODE
    assert json.loads(result.stdout)["error"]["name"] == "INVALID_REQUEST"


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultTally]:
    """Two rounds on real devices: a rank is killed, a NIC is killed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("soak")))
        patch.setattr(rounds, "MEBIBYTES", (1,))
        patch.setattr(rounds, "LONGEST_DELAY", 0.01)
        with rounds.fabric() as running:
            playing = rounds.Rounds(running)
            for name in ("rank killed", "NIC killed"):
                patch.setattr(rounds, "KINDS", [kind for kind in KINDS if kind.name == name])
                playing.play(3)
            yield playing.tally


def test_rounds_of_real_faults_end_as_promised(played: FaultTally) -> None:
    assert (played.wrong, played.hangs, dict(played.leaks), played.findings) == (0, 0, {}, [])
    assert played.faults == Counter({"rank killed": 1, "NIC killed": 1})
    assert played.results + played.errors.total() == (rounds.RANKS - 1) + rounds.RANKS
    assert set(played.errors) <= {"PeerLost", "DeviceLost"}


def test_every_kind_of_fault_is_of_a_rank_or_can_be_inflicted() -> None:
    assert len({kind.name for kind in KINDS}) == len(KINDS)
    assert {kind.name for kind in KINDS if is_of_rank(kind)} == {"rank killed", "rank stopped"}
    fatal = {"rank killed", "NIC killed", "switch killed", "NIC stopped for long"}
    assert {kind.name for kind in KINDS if kind.is_fatal} == fatal


def test_growth_counts_files_and_memory_beyond_what_is_normal(monkeypatch: pytest.MonkeyPatch) -> None:
    held = {"files": 10, "bytes": 100 << 20}
    monkeypatch.setattr(resource_leaks, "open_descriptors", lambda process: held["files"])
    monkeypatch.setattr(resource_leaks, "resident", lambda process: held["bytes"])
    monkeypatch.setattr(resource_leaks, "RELEASE_SECONDS", 0.0)
    running, growth = FakeRunning(), resource_leaks.Growth()
    for _ in range(resource_leaks.SETTLED):
        held["bytes"] += resource_leaks.GROWTH  # of what every device touches once
        assert growth.look(running) == ({}, {})  # type: ignore[arg-type]
    held["files"] += 1
    held["bytes"] += resource_leaks.GROWTH + 1
    assert growth.look(running) == ({"nic0": 1}, {"nic0": resource_leaks.GROWTH + 1})  # type: ignore[arg-type]
    assert growth.look(running) == ({}, {})  # type: ignore[arg-type]


class FakeRunning:
    """A fabric of one device."""

    @property
    def state(self) -> FakeRunning:
        """Itself."""
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


def test_plot_and_table_lie_beside_each_other(tmp_path: Path) -> None:
    loss_report.save(ROWS, 16 << 20, tmp_path / "loss.png")
    assert (tmp_path / "loss.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "loss.md").read_text() == loss_report.markdown(ROWS, 16 << 20)


def test_plot_without_the_library_says_what_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.backend_bases", None)
    with pytest.raises(ToolError) as raised:
        require_plot([tmp_path / "loss.png"])
    assert raised.value.name == "NOT_SUPPORTED"


def test_bench_refuses_options_before_its_subcommand() -> None:
    result = CliRunner().invoke(app, ["bench", "--peers", "elsewhere", "loss"])
    assert result.exit_code == UsageError.EXIT_CODE

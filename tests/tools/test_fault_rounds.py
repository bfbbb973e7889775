"""Rounds of faults, without devices: seeds choose the faults, findings are counted, and every fault is undone."""

import contextlib
import itertools
import random
import subprocess
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from fanin import errors
from fanin_sim.findings import Category
from fanin_tools.errors import ToolError
from fanin_tools.fabric.description import Fabric
from fanin_tools.fabric.generate import Plan, Shape
from fanin_tools.stress.faults import fault_kinds, rounds
from fanin_tools.stress.faults.fault_kinds import KINDS, FaultKind
from fanin_tools.stress.faults.rank_threads import RanksHang
from fanin_tools.stress.faults.reduction import ReductionProgress
from fanin_tools.stress.faults.rounds import FaultRounds
from fanin_tools.stress.tally import Tally, Work

FABRIC = Plan("f", Shape(3, 2, netns=True)).preview()


class FakeState:
    """Devices are dead or alive."""

    def __init__(self) -> None:
        self.dead: set[str] = set()

    def processes(self) -> dict[str, Any]:
        return {device.name: SimpleNamespace(alive=device.name not in self.dead) for device in FABRIC.daemons}


class Series(FaultRounds):
    """Only the part under test is real. chosen: the choices of the seeds."""

    def __init__(self) -> None:
        self.state = FakeState()
        super().__init__(SimpleNamespace(fabric=FABRIC, state=self.state), Tally(1))  # type: ignore[arg-type]
        self.chosen: list[Any] = []

    def _note(self, kind: FaultKind, route: str, elements: int, delay: float, source: random.Random) -> None:
        self.chosen.append((kind.name, route, elements, delay, source.random()))

    _with_device_fault = _with_rank_fault = _note

    def _check_leaks(self) -> None:
        pass

    @property
    def found(self) -> list[str]:
        """Without the words about their round."""
        return [finding.description.partition(" MiB: ")[2] or finding.description for finding in self.tally.findings]


@pytest.fixture
def restarted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Devices that were restarted."""
    names: list[str] = []
    monkeypatch.setattr(rounds.lifecycle, "restart", lambda fabric, name, progress: names.append(name))
    return names


def test_all_of_a_round_follows_from_its_seed() -> None:
    first, second = Series(), Series()
    for seed in range(100):
        first.run_round(seed)
        second.run_round(seed)
    assert first.chosen == second.chosen
    for part, least in enumerate((len(KINDS), 2, len(set(rounds.MEBIBYTES)), 90, 90)):
        assert len({choice[part] for choice in first.chosen}) >= least


def kind(name: str) -> FaultKind:
    return next(kind for kind in KINDS if kind.name == name)


def kill_by_fault(series: Series, name: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A round kills a device; which one."""
    killed: list[str] = []

    def kill(_running: object, device: str) -> None:
        killed.append(device)
        series.state.dead.add(device)

    monkeypatch.setattr("fanin_tools.stress.faults.fault_kinds.kill_device", kill)
    monkeypatch.setattr(rounds, "BRIEF_SECONDS", 0)
    series._inject(kind(name), random.Random(1))
    return killed[0]


@pytest.mark.parametrize("name", ["NIC killed", "switch killed"])
def test_device_that_was_killed_is_restarted(name: str, restarted: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    series = Series()
    killed = kill_by_fault(series, name, monkeypatch)
    series._restart_dead_devices()
    assert (restarted, series.found) == ([killed], [])


def test_device_that_ended_by_itself_is_a_finding(restarted: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    series = Series()
    series.state.dead.add("nic1")
    killed = kill_by_fault(series, "switch killed", monkeypatch)
    series._restart_dead_devices()
    assert sorted(restarted) == sorted(["nic1", killed])
    assert (series.found, series.tally.violations[Category.OTHER]) == (["nic1 has ended by itself"], 1)


def test_a_kill_excuses_its_own_round_only(restarted: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    series = Series()
    killed = kill_by_fault(series, "NIC killed", monkeypatch)
    series.run_round(1)  # of a round in which nothing is killed
    assert (restarted, series.found) == ([killed], [f"{killed} has ended by itself"])


def broken() -> None:
    raise ToolError("COMMAND_FAILED", "nft does not work", "")


def count(
    series: Series, outcome: Callable[[], int], fault: FaultKind, inject: Callable[[], None] = lambda: None
) -> None:
    """One rank acts during a fault."""
    series._count(fault, lambda rank: outcome(), [0], inject)


def test_fault_that_fails_is_a_finding_and_results_count() -> None:
    series = Series()
    count(series, lambda: 0, kind("packets lost"), broken)
    assert series.found == ["ToolError: COMMAND_FAILED: nft does not work; "]
    assert (series.tally.violations[Category.OTHER], series.tally.work[Work.RIGHT_RESULTS]) == (1, 1)


def raising(error: Exception) -> Callable[..., int]:
    def act(*_: object) -> int:
        raise error

    return act


@pytest.mark.parametrize(
    ("error", "name", "due"),
    [
        (errors.PeerLost("gone"), "NIC killed", True),
        (errors.DeviceLost("gone"), "NIC killed", True),
        (errors.OpMismatch("what?"), "NIC killed", False),
        (errors.Timeout("late"), "rank killed", False),
        (errors.PeerLost("gone"), "rank stopped", False),
    ],
)
def test_only_errors_of_the_lost_are_due_and_only_where_somebody_is(error: Exception, name: str, due: bool) -> None:
    series = Series()
    count(series, raising(error), kind(name))
    assert series.tally.errors.total() == due
    assert series.tally.violations[Category.OTHER] == (not due)
    assert series.found == ([] if due else [f"{type(error).__name__}, which this fault does not cause"])


@pytest.mark.parametrize("part", ["_with_device_fault", "_with_rank_fault", "_restart_dead_devices", "_check_leaks"])
def test_whatever_ends_a_part_is_a_finding_and_the_series_goes_on(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    series = Series()
    monkeypatch.setattr(series, part, raising(ValueError("what now?")))
    for seed in range(20):
        series.run_round(seed)
    assert series.tally.work[Work.FAULT_ROUNDS] == 20
    assert set(series.found) == {"ValueError: what now?"}
    assert len(series.chosen) + series.tally.violations.total() >= 20
    assert {finding.replay for finding in series.tally.findings} <= {f"fanin soak --replay {n}" for n in range(20)}


def test_ranks_that_hang_are_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    series = Series()
    for part in ("_with_device_fault", "_with_rank_fault"):
        monkeypatch.setattr(series, part, raising(RanksHang([2, 3], 1.0)))
    series.run_round(1)
    assert (series.found, series.tally.violations[Category.HANG]) == (["ranks 2, 3 hang"], 2)


@pytest.mark.parametrize("done", [False, True])
def test_faults_during_work_are_counted(done: bool) -> None:
    series, work, struck = Series(), ReductionProgress(), []
    work.begin()
    if done:
        work.do(lambda: 0)
    series._delayed_fault(work, 0, lambda: struck.append(True))()
    assert (series.tally.work[Work.FAULTS_DURING_WORK], struck) == (not done, [True])


def test_fault_of_ranks_that_could_not_begin_comes_all_the_same() -> None:
    series, work = Series(), ReductionProgress()
    count(
        series,
        lambda: work.do(raising(errors.PeerLost("no job"))),
        kind("rank killed"),
        series._delayed_fault(work, 0, lambda: None),
    )
    assert (series.tally.work[Work.FAULTS_DURING_WORK], series.tally.errors) == (0, {"PeerLost": 1})


# What machines lack


@pytest.mark.parametrize("refused", [(), ("true",), ("nft",)])
def test_rights_are_tried(refused: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    def run(command: tuple[str, ...], **_: object) -> subprocess.CompletedProcess:
        return subprocess.CompletedProcess(command, command[2] in refused)

    monkeypatch.setattr(rounds.os, "geteuid", lambda: 0)
    monkeypatch.setattr(rounds.shutil, "which", lambda tool: f"/bin/{tool}")
    monkeypatch.setattr(rounds.subprocess, "run", run)
    rights = {"true": "the right to make network namespaces", "nft": "nftables in the kernel"}
    assert rounds.missing_requirements() == "".join(rights[command] for command in refused)


def test_missing_programs_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds.os, "geteuid", lambda: 1000)
    monkeypatch.setattr(rounds.shutil, "which", lambda tool: None if tool == "nft" else f"/bin/{tool}")
    assert rounds.missing_requirements() == "root, nft"


# What is done to links is undone


@pytest.mark.parametrize(
    ("fault", "places"),
    [(lambda: fault_kinds.loss(FABRIC, 10), 4), (lambda: fault_kinds.link_down(FABRIC, "switch"), 3)],
)
def test_all_is_undone_though_one_command_fails(
    fault: Callable[[], contextlib.AbstractContextManager[None]], places: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    states: dict[tuple[str, ...], bool] = {}
    undone = itertools.count(1)

    def inside(_fabric: Fabric, host: str, *command: str, text: str | None = None) -> str:
        place = (host, *command[:-1])
        undo = command[-1] == "up" or "delete" in (text or "")
        if undo and next(undone) == 2:
            raise ToolError("COMMAND_FAILED", "not now", "")
        states[place] = not undo
        return ""

    monkeypatch.setattr(fault_kinds, "inside", inside)
    monkeypatch.setattr(fault_kinds, "require_loss", lambda fabric: None)
    met: list[bool] = []
    with pytest.raises(ToolError, match="not now"):
        use(fault(), lambda: met.extend(states.values()))
    assert met == [True] * places
    assert sorted(states.values()) == [False] * (places - 1) + [True]


def use(fault: contextlib.AbstractContextManager[None], look: Callable[[], None]) -> None:
    """During a fault."""
    with fault:
        look()

"""Storms: nothing is broken on the real engine, everything that can go wrong does, and a seed is a schedule."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from fanin_sim.fuzz import Tally, campaign, replay, run
from fanin_sim.fuzz.codes import FaultKind
from fanin_sim.fuzz.plan import Fault, Mood, Plan
from fanin_sim.fuzz.workloads import SCENES
from fanin_sim.fuzz.schedule import Theatre, describe
from fanin_sim.fuzz.trace_format import Story
from fanin_sim.fuzz.tally import Spread

SEED, SCHEDULES = 1, 2_000
HANG_S = 300  # for a process of its own on a busy machine


@pytest.fixture(scope="module")
def theatre() -> Theatre:
    """All scenes."""
    return Theatre()


@pytest.fixture(scope="module")
def tally() -> Tally:
    """A short storm."""
    return run(float("inf"), SEED, 2, schedules=SCHEDULES)


def test_nothing_breaks(tally: Tally) -> None:
    told = [f"{failure.heading}: {failure.faults}" for failure in tally.failures]
    assert told == []
    assert tally.schedules == SCHEDULES
    assert (tally.wrong_results, tally.hangs) == (0, 0)


def test_every_kind_of_fault_happens_in_every_scene_and_mood(tally: Tally) -> None:
    assert set(tally.faults) == {kind.name for kind in FaultKind}
    assert set(tally.scenes) == {scene.name for scene in SCENES}
    assert set(tally.moods) == {mood.value for mood in Mood}
    assert tally.faults["LOSS"] < tally.packets_lost < tally.faults["LOSS"] + tally.faults["CORRUPTION"]
    assert 0 < tally.accusations < tally.failed_requests < tally.requests
    assert 0 < tally.shortages < tally.scenes["a switch, two jobs and few slots"]


def test_most_schedules_are_full(tally: Tally) -> None:
    """Only disasters end some before."""
    assert tally.full > 0.8 * tally.schedules
    assert tally.spreads["nodes"].quantile(0) == 1


def test_every_scene_is_large_enough_when_nothing_goes_wrong(theatre: Theatre) -> None:
    calm = theatre.plan(SEED)._replace(mood=Mood.FAIR, rates={}, budget=0, planned=(), slots=16, lives=1)
    for number, scene in enumerate(SCENES):
        outcome = theatre.play(calm._replace(scene=number))
        assert not outcome.violation, describe(outcome)
        assert outcome.positions >= 2 * outcome.slots, scene.name
        assert outcome.positions >= 32, scene.name
        if scene.topology.nodes == 1:
            assert (scene.ranks >= 3, outcome.deliveries) == (True, 0), scene.name
        else:
            assert scene.topology.nodes >= 3, scene.name
            assert outcome.deliveries >= 300, scene.name
        assert outcome.failed == 0


@pytest.mark.parametrize("number", [n for n, scene in enumerate(SCENES) if scene.topology.nodes == 1])
@pytest.mark.parametrize("kind", [FaultKind.RANK_CRASH, FaultKind.EARLY_LEAVE], ids=lambda kind: kind.name)
def test_within_a_node_each_rank_may_go_at_any_event(theatre: Theatre, number: int, kind: FaultKind) -> None:
    """No other device sends anything later that would make up for what is not done at once."""
    calm = theatre.plan(SEED)._replace(scene=number, mood=Mood.DISASTER, rates={}, budget=0, slots=16, lives=1)
    cast = theatre.casts[number]
    for event in range(1, cast.events[0] + 1):
        for rank in range(len(cast.homes)):
            outcome = theatre.play(calm._replace(planned=(Fault(kind, 0, rank, 0, event, 0),)))
            assert not outcome.violation, (event, rank, describe(outcome))


def lines_of(theatre: Theatre, plan: Plan, faults: tuple | None = None) -> list[str]:
    """The trace of a schedule, in words."""
    theatre.play(plan, faults, trace=True)
    return list(Story(plan).lines(theatre.trace_of(plan)))


@pytest.mark.parametrize("seed", [3, 2**63 + 5])
def test_a_seed_gives_the_same_trace_in_another_process(seed: int) -> None:
    plan, _, lines = replay(seed)
    command = [sys.executable, "-m", "fanin_sim.fuzz", "--seed", str(seed), "--trace"]
    other = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, check=True).stdout
    assert other.splitlines() == [Story(plan).heading(), *lines]


def test_schedules_before_it_do_not_matter(theatre: Theatre) -> None:
    plan = theatre.plan(17)
    first = lines_of(theatre, plan)
    for seed in range(40):
        theatre.play(theatre.plan(seed)._replace(scene=plan.scene, planned=()))
    assert lines_of(theatre, plan) == first


def test_faults_that_happened_give_the_same_schedule_when_they_are_given(theatre: Theatre) -> None:
    for seed in range(60):
        plan = theatre.plan(seed)
        outcome = theatre.play(plan)
        assert theatre.play(plan, outcome.faults)._replace(plan=plan) == outcome, seed


def test_without_one_fault_the_others_stay(theatre: Theatre) -> None:
    plan = next(plan for plan in map(theatre.plan, range(1000)) if plan.mood == Mood.FAIR and plan.budget == 8)
    faults = theatre.play(plan).faults
    assert len(faults) > 3
    for left_out in faults:
        rest = tuple(fault for fault in faults if fault != left_out)
        happened = theatre.play(plan, rest).faults
        assert set(happened) <= set(rest)
        assert left_out not in happened


def test_a_process_that_dies_is_a_failure_with_its_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    def die(_theatre: Theatre, _seconds: float, seeds: range, playing: list[int], number: int) -> Tally:
        playing[number] = seeds[0]
        os._exit(1)

    monkeypatch.setattr(campaign, "_play", die)
    failures = run(1.0, 70, 2).failures
    assert sorted((failure.seed, failure.violation) for failure in failures) == [(70, "CRASH"), (71, "CRASH")]


def test_spread() -> None:
    spread = Spread()
    for value in (0, 1, 2, 3, 5, 1000):
        spread.add(value)
    assert spread.as_dict() == {"least": 0, "middle": 2, "greatest": 768}
    other = Spread()
    other.add(4000)
    spread.merge(other)
    assert spread.quantile(1) == 3072
    assert Spread().quantile(0.5) == 0

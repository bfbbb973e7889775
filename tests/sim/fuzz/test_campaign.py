"""Campaigns of the schedule fuzzer: no findings on the real engine, every kind of fault, repeatable seeds."""

import os
import subprocess
import sys

import pytest

from fanin_sim.findings import Category
from fanin_sim.fuzz import FuzzTally, campaign, replay, run
from fanin_sim.fuzz.campaign import Distribution
from fanin_sim.fuzz.codes import FaultKind
from fanin_sim.fuzz.plan import Fault, Plan, Profile
from fanin_sim.fuzz.schedule import ScheduleRunner, describe
from fanin_sim.fuzz.trace_format import TraceFormatter
from fanin_sim.fuzz.workloads import WORKLOADS

SEED, SCHEDULES = 1, 2_000
HANG_S = 300  # for a process of its own on a busy machine


@pytest.fixture(scope="module")
def runner() -> ScheduleRunner:
    return ScheduleRunner()


@pytest.fixture(scope="module")
def tally() -> FuzzTally:
    return run(float("inf"), SEED, 2, schedules=SCHEDULES)


def test_nothing_breaks(tally: FuzzTally) -> None:
    assert [f"{finding.description}: {finding.details}" for finding in tally.findings] == []
    assert tally.is_clean
    assert tally.counts["schedules"] == SCHEDULES


def test_every_kind_of_fault_happens_in_every_workload_and_profile(tally: FuzzTally) -> None:
    counts = tally.counts
    assert set(tally.faults) == {kind.name for kind in FaultKind}
    assert set(tally.workloads) == {workload.name for workload in WORKLOADS}
    assert set(tally.profiles) == {profile.value for profile in Profile}
    assert tally.faults["LOSS"] < counts["packets_lost"] < tally.faults["LOSS"] + tally.faults["CORRUPTION"]
    assert 0 < counts["peer_lost_reports"] < counts["failed_requests"] < counts["requests"]
    assert counts["arrivals"] > 0
    assert 0 < counts["slot_shortages"] < tally.workloads["a switch, two jobs and few slots"]


def test_most_schedules_are_full(tally: FuzzTally) -> None:
    assert tally.counts["full"] > 0.8 * tally.counts["schedules"]
    assert tally.distributions["nodes"].quantile(0) == 1


def test_every_workload_is_large_enough_when_nothing_goes_wrong(runner: ScheduleRunner) -> None:
    calm = runner.plan(SEED)._replace(profile=Profile.LOSSY, rates={}, budget=0, planned=(), slots=16, incarnations=1)
    for number, workload in enumerate(WORKLOADS):
        outcome = runner.run(calm._replace(workload=number))
        assert not outcome.violation, describe(outcome)
        assert outcome.positions >= 2 * outcome.slots, workload.name
        assert outcome.positions >= 32, workload.name
        if workload.topology.nodes == 1:
            assert (workload.ranks >= 3, outcome.deliveries) == (True, 0), workload.name
        else:
            assert workload.topology.nodes >= 3, workload.name
            assert outcome.deliveries >= 300, workload.name
        assert outcome.failed == 0


@pytest.mark.parametrize("number", [n for n, workload in enumerate(WORKLOADS) if workload.topology.nodes == 1])
@pytest.mark.parametrize("kind", [FaultKind.RANK_CRASH, FaultKind.EARLY_LEAVE], ids=lambda kind: kind.name)
def test_within_a_node_each_rank_may_go_at_any_event(runner: ScheduleRunner, number: int, kind: FaultKind) -> None:
    """No packet of another device could later repair an omission."""
    calm = runner.plan(SEED)._replace(
        workload=number, profile=Profile.CRASHES, rates={}, budget=0, slots=16, incarnations=1
    )
    targets = runner.fault_targets[number]
    for event in range(1, targets.events[0] + 1):
        for rank in range(len(targets.homes)):
            outcome = runner.run(calm._replace(planned=(Fault(kind, 0, rank, 0, event, 0),)))
            assert not outcome.violation, (event, rank, describe(outcome))


def lines_of(runner: ScheduleRunner, plan: Plan, faults: tuple | None = None) -> list[str]:
    runner.run(plan, faults, trace=True)
    return list(TraceFormatter(plan).lines(runner.trace_of(plan)))


@pytest.mark.parametrize("seed", [3, 2**63 + 5])
def test_a_seed_gives_the_same_trace_in_another_process(seed: int) -> None:
    replayed = replay(seed)
    command = [sys.executable, "-m", "fanin_sim.fuzz", "--seed", str(seed), "--trace"]
    other = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, check=True).stdout
    assert other.splitlines() == [replayed.heading, *replayed.lines]


def test_schedules_before_it_do_not_matter(runner: ScheduleRunner) -> None:
    plan = runner.plan(17)
    first = lines_of(runner, plan)
    for seed in range(40):
        runner.run(runner.plan(seed)._replace(workload=plan.workload, planned=()))
    assert lines_of(runner, plan) == first


def test_faults_that_happened_give_the_same_schedule_when_they_are_given(runner: ScheduleRunner) -> None:
    for seed in range(60):
        plan = runner.plan(seed)
        outcome = runner.run(plan)
        assert runner.run(plan, outcome.faults)._replace(plan=plan) == outcome, seed


def test_without_one_fault_the_others_stay(runner: ScheduleRunner) -> None:
    plan = next(plan for plan in map(runner.plan, range(1000)) if plan.profile == Profile.LOSSY and plan.budget == 8)
    faults = runner.run(plan).faults
    assert len(faults) > 3
    for left_out in faults:
        rest = tuple(fault for fault in faults if fault != left_out)
        happened = runner.run(plan, rest).faults
        assert set(happened) <= set(rest)
        assert left_out not in happened


def test_a_process_that_dies_is_a_finding_of_its_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    def die(_seed: int, _tally: FuzzTally) -> None:
        os._exit(1)

    monkeypatch.setattr(campaign, "_run_seed", die)
    findings = sorted(run(1.0, 70, 2).findings, key=lambda finding: finding.seed)
    assert [finding.seed for finding in findings] == [70, 71]
    assert all("CRASH" in finding.description for finding in findings)
    assert {finding.category for finding in findings} == {Category.OTHER}


def test_distribution() -> None:
    distribution = Distribution()
    for value in (0, 1, 2, 3, 5, 1000):
        distribution.add(value)
    assert distribution.as_dict() == {"min": 0, "median": 2, "max": 768}
    other = Distribution()
    other.add(4000)
    distribution.merge(other)
    assert distribution.quantile(1) == 3072
    assert Distribution().quantile(0.5) == 0

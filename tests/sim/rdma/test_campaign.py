"""Campaigns: every kind of fault happens, a seed repeats its schedule, a violation is explained."""

import subprocess
import sys

import numpy as np
import pytest

from fanin_nic.transport.records.tables import REGION, TRANSPORT
from fanin_sim.findings import Category
from fanin_sim.rdma import campaign, replay, run
from fanin_sim.rdma.campaign import RdmaTally
from fanin_sim.rdma.codes import FaultKind, Violation, WrongRequest
from fanin_sim.rdma.plan import Plan, Profile, plan_of
from fanin_sim.rdma.schedule import ScheduleRunner
from fanin_sim.rdma.world import TOPOLOGIES

SEED, SCHEDULES = 5_000, 2_000
MANY = 30_000  # `fanin sim --fuzz --rdma` can run longer
HANG_S = 300


@pytest.fixture(scope="module")
def runner() -> ScheduleRunner:
    return ScheduleRunner()


@pytest.fixture(scope="module")
def tally() -> RdmaTally:
    return run(float("inf"), SEED, 1, schedules=SCHEDULES)


def find(profile: Profile, seeds: range = range(500), **members: int) -> int:
    """The first seed with a profile, and with members of its plan."""
    for seed in seeds:
        plan = plan_of(seed)
        if plan.profile == profile and all(getattr(plan, name) == value for name, value in members.items()):
            return seed
    raise AssertionError("there is none")


def test_nothing_is_violated(tally: RdmaTally) -> None:
    assert [finding.description for finding in tally.findings] == []
    assert tally.counts["schedules"] == SCHEDULES


@pytest.mark.parametrize(
    "seed",
    [185265520],  # a request of one direction has the PSN of a response of the other
)
def test_seed_that_once_failed(seed: int) -> None:
    assert replay(seed).violation == ""


@pytest.mark.process
@pytest.mark.deep
def test_many_schedules() -> None:
    found = run(float("inf"), 1_000_000, 2, schedules=MANY)
    assert [f"{finding.description}: {finding.details}" for finding in found.findings] == []
    assert found.counts["schedules"] == MANY


def test_every_fault_profile_and_topology_occurs(tally: RdmaTally) -> None:
    assert set(tally.faults) == {kind.name for kind in FaultKind} - {FaultKind.WRONG_REQUEST.name}
    assert set(tally.profiles) == {profile.value for profile in Profile}
    assert set(tally.topologies) == {topology.name for topology in TOPOLOGIES}
    assert tally.counts["succeeded"] > 10 * tally.counts["failed"] > 0
    assert tally.counts["received_messages"] > SCHEDULES
    assert SCHEDULES // 3 < tally.counts["shared"] < SCHEDULES // 2


@pytest.mark.parametrize("profile", Profile)
def test_a_seed_repeats_its_schedule(profile: Profile, runner: ScheduleRunner) -> None:
    plan = plan_of(find(profile))
    first = runner.run(plan, trace=True)
    trace = runner.trace_of(plan)
    assert ScheduleRunner().run(plan) == first
    again = runner.run(plan, trace=True)
    assert again == first
    assert (runner.trace_of(plan) == trace).all()


def test_trace_is_text() -> None:
    replayed = replay(find(Profile.WRONG))
    text = "\n".join(replayed.lines)
    assert Profile.WRONG.value in replayed.heading
    assert not replayed.violation
    for word in ("posts request", "posts receive request", "ends: SUCCESS", "is made, queue pair", "RC_ACKNOWLEDGE"):
        assert word in text


def test_a_violation_is_explained(runner: ScheduleRunner) -> None:
    """Without retries a lossy network ends connections, which the profile forbids."""
    broken = runner.run(plan_of(find(Profile.LOSSY))._replace(retry_count=0, rates={FaultKind.LOSS: 30_000}, budget=64))
    assert broken.violation == Violation.WRONG_STATUS
    finding = campaign.explain(runner, broken)
    assert finding.category == Category.OTHER
    assert finding.replay == f"fanin sim --rdma --seed {broken.plan.seed} --trace"
    assert "WRONG_STATUS" in finding.description
    assert finding.details[-1].endswith(f"WRONG_STATUS at {broken.location}")


def test_writes_outside_of_memory_are_found() -> None:
    """The transport knows a region that is longer than the memory behind it."""
    runner, plan = ScheduleRunner(), plan_of(find(Profile.CALM, wrong_kind=WrongRequest.BEYOND_REGION, wrong_side=0))
    for snapshot in runner.world(plan.topology).snapshots:
        regions = int(snapshot[: TRANSPORT.itemsize].view(TRANSPORT)["region_offset"][0])
        snapshot[regions : regions + REGION.itemsize].view(REGION)["length"] += np.uint64(8)
    assert Violation.STRAY_WRITE in violations(runner, plan)


def violations(runner: ScheduleRunner, plan: Plan) -> set[Violation]:
    return {runner.run(plan._replace(seed=seed)).violation for seed in range(plan.seed, plan.seed + 100)}


@pytest.mark.process
@pytest.mark.parametrize(("options", "code"), [(["--schedules", "50"], 0), (["--trace", "--seed", "7"], 0)])
def test_command(options: list[str], code: int) -> None:
    command = [sys.executable, "-m", "fanin_sim.rdma", *options]
    result = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S)
    assert result.returncode == code, result.stderr

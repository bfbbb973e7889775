"""The schedule fuzzer finds defective engines, and shrinks the schedule to the necessary faults."""

import ctypes

import numpy as np
import pytest

from fanin_nic.engine.records.accessors import NEVER, U64, engine_at
from fanin_nic.native.compiled import compiled
from fanin_sim.fuzz.campaign import explain, shrink
from fanin_sim.fuzz.codes import FaultKind, Violation
from fanin_sim.fuzz.plan import ALL_PEERS, Fault, Profile
from fanin_sim.fuzz.schedule import Outcome, ScheduleRunner
from fanin_sim.fuzz.tables import SCOPE
from fanin_sim.fuzz.workloads import WORKLOADS
from fanin_sim.kernel.calls import entry_point
from fanin_wire.abi import DType, Op
from fanin_wire.fields import BTH, CETH, Flag, Opcode

WITHIN = 200  # seeds
ALL_ACTIONS = 255  # of the event at which a device crashes, are performed
PACKET_EVENT = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 5)
MID, FLAGS = (BTH.size + CETH.byte_offset(name) for name in ("mid", "flags"))


@compiled
def tick_without_timers(base, now):
    """A tick of an engine that never asks for lost packets."""
    engine_at(U64(base)).next_deadline = NEVER


@compiled
def half(base):
    """A function whose result is not in the register where C expects it."""
    return base * 0.5


def first_broken(runner: ScheduleRunner, violation: Violation, faults: int = 0, **changes) -> Outcome:
    """The first seed with a violation, and so many faults. `changes` apply to all plans."""
    for seed in range(WITHIN):
        outcome = runner.run(runner.plan(seed)._replace(**changes))
        if outcome.violation == violation and len(outcome.faults) >= faults:
            return outcome
    raise AssertionError(f"{violation.name} does not occur in {WITHIN} seeds")


@pytest.fixture
def runner() -> ScheduleRunner:
    """A runner for each test, which changes its worlds."""
    runner = ScheduleRunner()
    assert runner.fault_targets
    return runner


def test_an_event_that_returns_no_integer_is_refused() -> None:
    with pytest.raises(TypeError, match="half returns float64"):
        entry_point(half, 1)


def test_an_engine_without_timers_hangs_after_one_loss(runner: ScheduleRunner) -> None:
    runner.world(0).record["on_tick"] = entry_point(tick_without_timers, 2)
    below_a_switch = {"workload": 0, "profile": Profile.LOSSY, "planned": (), "incarnations": 1}
    broken = first_broken(runner, Violation.OPERATION_HANGS, faults=2, **below_a_switch)
    short = shrink(runner, broken)
    assert short.outcome.violation == broken.violation
    assert len(short.faults) == 1 < len(broken.faults)
    assert short.faults[0] in broken.faults
    assert short.faults[0].kind in (FaultKind.LOSS, FaultKind.CORRUPTION)


def test_wrong_arithmetic_needs_no_fault_and_one_message(runner: ScheduleRunner) -> None:
    for workload in range(len(WORKLOADS)):
        world = runner.world(workload)
        for row, device in zip(world.vertices, world.simulation.vertices, strict=True):
            kernels = device.engine.tables["kernels"].reshape(-1, 32)
            kernels[int(Op.SUM), int(DType.I32)] = kernels[int(Op.MAX), int(DType.I32)]
            world.take_snapshot(row, device)
    broken = first_broken(runner, Violation.WRONG_RESULT)
    short = shrink(runner, broken)
    assert short.faults == ()
    assert short.plan.messages <= len(WORKLOADS[broken.plan.workload].postings)


@pytest.mark.parametrize("profile", [Profile.LOSSY, Profile.NO_ICRC], ids=lambda profile: profile.value)
def test_data_of_no_message_are_found_when_they_arrive(runner: ScheduleRunner, profile: Profile) -> None:
    """Data ahead of a result have an unknown message number, and no packet was corrupted."""
    number = next(n for n, one in enumerate(WORKLOADS) if one.name == "a switch, a stream of short messages")
    record = runner.world(number).record
    take = PACKET_EVENT(int(record["on_packet"]))

    @PACKET_EVENT
    def take_for_another(base: int, address: int, length: int, source: int, now: int) -> int:
        header = (ctypes.c_uint8 * (BTH.size + CETH.size)).from_address(address)
        if header[0] == Opcode.RESULT and header[FLAGS] & Flag.AHEAD:
            header[MID] = 0xFF
        return take(base, address, length, source, now)

    calm = {"workload": number, "profile": profile, "rates": {}, "budget": 0, "planned": (), "incarnations": 1}
    assert not runner.run(runner.plan(0)._replace(**calm)).violation
    record["on_packet"] = ctypes.cast(take_for_another, ctypes.c_void_p).value
    first_broken(runner, Violation.STRAY_WRITE, **calm)


def test_reports_of_members_that_are_well_are_found(runner: ScheduleRunner) -> None:
    """The table of scopes is rotated, so that the engine's reports seem to name other devices."""
    plan = next(plan for plan in map(runner.plan, range(1000)) if plan.profile == Profile.CRASHES)
    plan = plan._replace(workload=0, incarnations=1, rates={}, deadline_ms=0)
    crash = Fault(FaultKind.NIC_CRASH, 2, 2, 0, runner.fault_targets[0].events[2] // 2, ALL_ACTIONS)
    sound = runner.run(plan, (crash,))
    assert not sound.violation
    assert sound.peer_lost_reports > 0
    world = runner.world(0)
    for node in range(3):
        table = (ctypes.c_uint8 * SCOPE.itemsize).from_address(int(world.vertices[node]["scopes"]))
        bits = np.frombuffer(table, SCOPE)[0]["child"][:3]
        bits[:] = np.roll(bits, 1)
    broken = runner.run(plan, (crash,))
    assert broken.violation == Violation.WRONG_PEER_LOST
    short = shrink(runner, broken)
    assert short.faults == (crash,)
    assert any("PEER_LOST, missing members 0b100 of scope 1" in line for line in explain(runner, broken).details)


def test_schedule_shrinks_to_the_fault_of_the_violation(runner: ScheduleRunner) -> None:
    """A link is down for longer than the detection time, in a plan whose requests must succeed."""
    plan = next(plan for plan in map(runner.plan, range(1000)) if plan.profile == Profile.LOSSY and plan.budget == 64)
    cut = Fault(
        FaultKind.PARTITION, 0, ALL_PEERS, 0, runner.fault_targets[plan.workload].events[0] // 2, 20 * plan.detection
    )
    broken = runner.run(plan._replace(planned=(cut,)))
    assert broken.violation
    assert len(broken.faults) > 5
    short = shrink(runner, broken)
    assert short.faults == (cut,)
    finding = explain(runner, broken)
    assert finding.seed == plan.seed
    (fault,) = (line for line in finding.details if line.startswith("fault: "))
    assert fault.startswith("fault: PARTITION: NIC 0 from all others")
    assert "VIOLATION" in finding.details[-1]

"""Storms find engines that are broken, and say how in as few faults as it takes."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from fanin_nic.engine.state import NEVER, U64, engine_at
from fanin_nic.native.compiled import compiled
from fanin_sim.fuzz.engine_calls import entry_point
from fanin_sim.fuzz.campaign import explain
from fanin_sim.fuzz.codes import FaultKind, Violation
from fanin_sim.fuzz.plan import EVERYBODY, Fault, Mood
from fanin_sim.fuzz.workloads import SCENES
from fanin_sim.fuzz.schedule import Outcome, Theatre
from fanin_sim.fuzz.shrink import shrink
from fanin_sim.fuzz.tables import LEVEL
from fanin_wire.abi import DType, Op

WITHIN = 200  # seeds
ALL_ACTIONS = 255  # of the event at which a device crashes, are performed


@compiled
def tick_without_timers(base, now):
    """A tick of an engine that never asks for what is lost."""
    engine_at(U64(base)).next_deadline = NEVER


@compiled
def half(base):
    """What C would look for in a register that holds something else."""
    return base * 0.5


def first_broken(theatre: Theatre, violation: Violation, **changes) -> Outcome:
    """The first seed that breaks something in a certain way. changes: of all plans."""
    for seed in range(WITHIN):
        outcome = theatre.play(theatre.plan(seed)._replace(**changes))
        if outcome.violation == violation:
            return outcome
    raise AssertionError(f"{violation.name} does not occur in {WITHIN} seeds")


@pytest.fixture
def theatre() -> Theatre:
    """All scenes, to be broken."""
    theatre = Theatre()
    assert theatre.casts
    return theatre


def test_an_event_that_returns_no_integer_is_refused() -> None:
    with pytest.raises(TypeError, match="half returns float64"):
        entry_point(half, 1)


def test_an_engine_without_timers_hangs_after_one_loss(theatre: Theatre) -> None:
    theatre.stage(0).world["on_tick"] = entry_point(tick_without_timers, 2)
    below_a_switch = {"scene": 0, "mood": Mood.FAIR, "planned": (), "lives": 1}
    broken = first_broken(theatre, Violation.OPERATION_HANGS, **below_a_switch)
    short = shrink(theatre, broken)
    assert short.outcome.violation == broken.violation
    assert len(short.faults) == 1 < len(broken.faults)
    assert short.faults[0] in broken.faults
    assert short.faults[0].kind in (FaultKind.LOSS, FaultKind.CORRUPTION)


def test_wrong_arithmetic_needs_no_fault_and_one_message(theatre: Theatre) -> None:
    for scene in range(len(SCENES)):
        stage = theatre.stage(scene)
        for row, device in zip(stage.vertices, stage.simulation.vertices, strict=True):
            kernels = device.engine.tables["kernels"].reshape(-1, 32)
            kernels[int(Op.SUM), int(DType.I32)] = kernels[int(Op.MAX), int(DType.I32)]
            stage.take_snapshot(row, device)
    broken = first_broken(theatre, Violation.WRONG_RESULT)
    short = shrink(theatre, broken)
    assert short.faults == ()
    assert short.plan.messages <= len(SCENES[broken.plan.scene].postings)


def test_names_of_those_who_are_well_are_found(theatre: Theatre) -> None:
    """The table of whom bits mean is turned round, so that what the engine says is about others."""
    plan = next(plan for plan in map(theatre.plan, range(1000)) if plan.mood == Mood.DISASTER)
    plan = plan._replace(scene=0, lives=1, rates={}, deadline_ms=0)
    crash = Fault(FaultKind.NIC_CRASH, 2, 2, 0, theatre.casts[0].events[2] // 2, ALL_ACTIONS)
    sound = theatre.play(plan, (crash,))
    assert not sound.violation
    assert sound.accusations > 0
    stage = theatre.stage(0)
    for node in range(3):
        table = (ctypes.c_uint8 * LEVEL.itemsize).from_address(int(stage.vertices[node]["levels"]))
        bits = np.frombuffer(table, LEVEL)[0]["child"][:3]
        bits[:] = np.roll(bits, 1)
    broken = theatre.play(plan, (crash,))
    assert broken.violation == Violation.WRONG_BLAME
    short = shrink(theatre, broken)
    assert short.faults == (crash,)
    assert any("PEER_LOST, naming 0b100 of kind 1" in line for line in explain(theatre, broken).tail)


def test_of_many_faults_the_one_that_breaks_a_promise_is_left(theatre: Theatre) -> None:
    """A link that is down for longer than the detection time, in a plan that promises success."""
    plan = next(plan for plan in map(theatre.plan, range(1000)) if plan.mood == Mood.FAIR and plan.budget == 64)
    cut = Fault(FaultKind.PARTITION, 0, EVERYBODY, 0, theatre.casts[plan.scene].events[0] // 2, 20 * plan.detection)
    broken = theatre.play(plan._replace(planned=(cut,)))
    assert broken.violation
    assert len(broken.faults) > 5
    short = shrink(theatre, broken)
    assert short.faults == (cut,)
    failure = explain(theatre, broken)
    assert failure.seed == plan.seed
    assert failure.faults == [f for f in failure.faults if f.startswith("PARTITION: NIC 0 from all others")]
    assert "BROKEN" in failure.tail[-1]

"""Schedules from Python: play one by its seed, or with faults that are given; what came of it, and its trace."""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np

from fanin_sim.fuzz.codes import FaultKind, Violation
from fanin_sim.fuzz.plan import Cast, Fault, Mood, Plan, plan_of
from fanin_sim.fuzz.event_loop import START, play
from fanin_sim.fuzz.workloads import SCENES
from fanin_sim.fuzz.world import TRACE_LINES, Stage

BOUND_BEYOND_DETECTION = 2_000_000_000  # ns: after the last fault a request may take the detection time and so long


class Outcome(NamedTuple):
    """What came of a schedule. `faults`: that have happened, in order. duration, slowest: ns of virtual time; slowest:
    from the last fault to the end of a request. `culprit`, `detail`: of a violation (see tables.Violation)."""

    plan: Plan
    violation: Violation
    culprit: int
    detail: int
    faults: tuple[Fault, ...]
    events: int
    deliveries: int
    dropped: int
    positions: int
    slots: int
    ended: int
    failed: int
    duration: int
    slowest: int
    shortages: int
    accusations: int


class Theatre:
    """All scenes, each made ready when it is first needed."""

    def __init__(self) -> None:
        self._stages: dict[int, Stage] = {}

    @functools.cached_property
    def casts(self) -> list[Cast]:
        """Who can be struck in each scene: found by playing it without faults."""
        return [self._cast(number) for number in range(len(SCENES))]

    def plan(self, seed: int) -> Plan:
        """The plan of a seed."""
        return plan_of(seed, self.casts)

    def play(self, plan: Plan, faults: tuple[Fault, ...] | None = None, *, trace: bool = False) -> Outcome:
        """Play a plan; with `faults`, these and no others happen. trace: keep one, see `trace_of`."""
        stage = self.stage(plan.scene)
        _set(stage, plan, faults, trace)
        play(stage.address)
        return _outcome(stage, plan)

    def stage(self, scene: int) -> Stage:
        """A scene, ready."""
        if scene not in self._stages:
            self._stages[scene] = Stage(SCENES[scene])
        return self._stages[scene]

    def trace_of(self, plan: Plan) -> np.ndarray:
        """The trace of the last schedule that was played in a plan's scene, oldest line first."""
        stage = self.stage(plan.scene)
        count = int(stage.world["trace_count"])
        lines = stage.trace[: min(count, TRACE_LINES)]
        return np.roll(lines, -(count % TRACE_LINES)) if count > TRACE_LINES else lines.copy()

    def _cast(self, number: int) -> Cast:
        stage = self.stage(number)
        outcome = self.play(CALM._replace(scene=number))
        if outcome.violation:
            raise AssertionError(f"{SCENES[number].name}, without any fault: {describe(outcome)}")
        return Cast(
            tuple(int(vertex["events"]) for vertex in stage.vertices),
            tuple(int(rank["vertex"]) for rank in stage.ranks),
            tuple(index for index, vertex in enumerate(stage.vertices) if vertex["is_switch"]),
            SCENES[number].process_memory,
        )


CALM = Plan(0, 0, Mood.FAIR, {}, 0, 0, (), 0, 8, 5_000_000_000, 1_000, 0)


def describe(outcome: Outcome) -> str:
    """One line about what was broken."""
    names = Stage.names_of(SCENES[outcome.plan.scene])
    by_device = outcome.violation <= Violation.WRONG_SLOT_COUNT or outcome.violation in DEVICES_BLAMED
    where = names[outcome.culprit] if by_device else f"rank {outcome.culprit}"
    return f"{outcome.violation.name} at {where} ({outcome.detail})"


DEVICES_BLAMED = {
    Violation.SLOT_LEAKED,
    Violation.ACTION_OVERFLOW,
    Violation.STRANGER_ADDRESSED,
    Violation.PACKET_STORM,
}


def _set(stage: Stage, plan: Plan, faults: tuple[Fault, ...] | None, trace: bool) -> None:
    world = stage.world
    world["bound"] = plan.detection + BOUND_BEYOND_DETECTION
    world["seed"], world["detection"] = plan.seed % 2**64, plan.detection
    world["message_limit"], world["first_position"] = plan.messages, plan.first_position
    world["lives"], world["deadline_ms"] = plan.lives, plan.deadline_ms
    world["slots_offered"], world["gap"], world["pauses"] = plan.slots, plan.gap, plan.pauses
    world["rate"] = 0
    for kind, rate in plan.rates.items():
        world["rate"][kind] = rate
    world["most_in_a_row"], world["budget"] = plan.most_in_a_row, plan.budget
    world["checks_icrc"] = plan.mood != Mood.WILD
    world["may_write_wild"] = plan.mood == Mood.WILD
    world["tolerated"] = sum(1 << int(status) for status in plan.tolerated)
    given = plan.planned if faults is None else faults
    world["is_given"], world["given_count"] = faults is not None, len(given)
    for row, fault in zip(stage.given, given, strict=False):
        for name, value in fault._asdict().items():
            row[name] = value
    world["trace_room"] = TRACE_LINES if trace else 0


def _outcome(stage: Stage, plan: Plan) -> Outcome:
    world = stage.world
    happened = stage.faults[: int(world["fault_count"])]
    faults = tuple(Fault(FaultKind(row[0]), *row[1:]) for row in happened[list(Fault._fields)].tolist())
    return Outcome(
        plan,
        Violation(int(world["violation"])),
        int(world["culprit"]),
        int(world["detail"]),
        faults,
        int(world["events"]),
        int(world["deliveries"]),
        int(world["dropped"]),
        int(world["positions"]),
        int(world["slots_granted"]),
        int(world["ended"]),
        int(world["failed"]),
        int(world["now"]) - START,
        int(world["slowest"]),
        int(world["shortages"]),
        int(world["accusations"]),
    )

"""Runs schedules from Python, by seed or with a given list of faults."""

import functools
from typing import NamedTuple

import numpy as np

from fanin_sim.fuzz.codes import FaultKind, Violation
from fanin_sim.fuzz.event_loop import START, run_schedule
from fanin_sim.fuzz.plan import Fault, FaultTargets, Plan, Profile, plan_of
from fanin_sim.fuzz.workloads import WORKLOADS
from fanin_sim.fuzz.world import TRACE_LINES, World

# ns: a request must end within the detection time and this, after the last fault
BOUND_BEYOND_DETECTION = 2_000_000_000


class Outcome(NamedTuple):
    """The outcome of a schedule.

    location, detail: where the violation has happened (a device or a rank), and a number that depends on it.
    faults: the faults that have happened, in order.
    duration: ns of virtual time.
    slowest: longest time from the last fault to the end of a request, ns.
    """

    plan: Plan
    violation: Violation
    location: int
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
    peer_lost_reports: int
    arrivals: int


class ScheduleRunner:
    """Runs schedules. The world of each workload is made at its first use."""

    def __init__(self) -> None:
        self._stages: dict[int, World] = {}

    @functools.cached_property
    def fault_targets(self) -> list[FaultTargets]:
        """The targets of planned faults of each workload, from a run without faults."""
        return [self._targets(number) for number in range(len(WORKLOADS))]

    def plan(self, seed: int) -> Plan:
        return plan_of(seed, self.fault_targets)

    def run(self, plan: Plan, faults: tuple[Fault, ...] | None = None, *, trace: bool = False) -> Outcome:
        """Runs a plan.

        Args:
            faults: if given, these faults happen and no others.
            trace: keep a trace, see `trace_of`.
        """
        world = self.world(plan.workload)
        _set(world, plan, faults, trace)
        run_schedule(world.address)
        return _outcome(world, plan)

    def world(self, workload: int) -> World:
        if workload not in self._stages:
            self._stages[workload] = World(WORKLOADS[workload])
        return self._stages[workload]

    def trace_of(self, plan: Plan) -> np.ndarray:
        """The trace of the last run of a plan's workload, oldest line first."""
        return self.world(plan.workload).lines()

    def _targets(self, number: int) -> FaultTargets:
        world = self.world(number)
        outcome = self.run(CALM._replace(workload=number))
        if outcome.violation:
            raise AssertionError(f"{WORKLOADS[number].name}, without any fault: {describe(outcome)}")
        return FaultTargets(
            tuple(int(vertex["events"]) for vertex in world.vertices),
            tuple(int(rank["vertex"]) for rank in world.ranks),
            tuple(index for index, vertex in enumerate(world.vertices) if vertex["is_switch"]),
            WORKLOADS[number].process_memory,
        )


CALM = Plan(0, 0, Profile.LOSSY, {}, 0, 0, (), 0, 8, 5_000_000_000, 1_000, 0)


def describe(outcome: Outcome) -> str:
    """One line about a violation."""
    names = World.names_of(WORKLOADS[outcome.plan.workload])
    by_device = outcome.violation <= Violation.WRONG_SLOT_COUNT or outcome.violation in DEVICE_VIOLATIONS
    where = names[outcome.location] if by_device else f"rank {outcome.location}"
    return f"{outcome.violation.name} at {where} ({outcome.detail})"


DEVICE_VIOLATIONS = {
    Violation.SLOT_LEAKED,
    Violation.ACTION_OVERFLOW,
    Violation.UNKNOWN_DESTINATION,
    Violation.LIVELOCK,
}


def _set(world: World, plan: Plan, faults: tuple[Fault, ...] | None, trace: bool) -> None:
    record = world.record
    record["bound"] = plan.detection + BOUND_BEYOND_DETECTION
    record["seed"], record["detection"] = plan.seed % 2**64, plan.detection
    record["message_limit"], record["first_position"] = plan.messages, plan.first_position
    record["incarnations"], record["deadline_ms"] = plan.incarnations, plan.deadline_ms
    record["slots_offered"], record["gap"], record["pauses"] = plan.slots, plan.gap, plan.pauses
    record["rate"] = 0
    for kind, rate in plan.rates.items():
        record["rate"][kind] = rate
    record["most_in_a_row"], record["budget"] = plan.most_in_a_row, plan.budget
    record["checks_icrc"] = plan.profile != Profile.NO_ICRC
    record["accepts_corruption"] = plan.profile == Profile.NO_ICRC
    record["tolerated"] = sum(1 << int(status) for status in plan.tolerated)
    given = plan.planned if faults is None else faults
    record["is_given"], record["given_count"] = faults is not None, len(given)
    for row, fault in zip(world.given, given, strict=False):
        for name, value in fault._asdict().items():
            row[name] = value
    record["trace_room"] = TRACE_LINES if trace else 0


def _outcome(world: World, plan: Plan) -> Outcome:
    record = world.record
    happened = world.faults[: int(record["fault_count"])]
    faults = tuple(Fault(FaultKind(row[0]), *row[1:]) for row in happened[list(Fault._fields)].tolist())
    return Outcome(
        plan,
        Violation(int(record["violation"])),
        int(record["location"]),
        int(record["detail"]),
        faults,
        int(record["events"]),
        int(record["deliveries"]),
        int(record["dropped"]),
        int(record["positions"]),
        int(record["slots_granted"]),
        int(record["ended"]),
        int(record["failed"]),
        int(record["now"]) - START,
        int(record["slowest"]),
        int(record["shortages"]),
        int(record["peer_lost_reports"]),
        int(record["arrivals"]),
    )

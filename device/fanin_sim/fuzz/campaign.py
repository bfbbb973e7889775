"""Campaigns of the schedule fuzzer: a violation is shrunk and explained; counts over all schedules.

Messages and faults are removed while the violation stays (ddmin: Zeller and Hildebrandt, "Simplifying and Isolating
Failure-Inducing Input", 2002).
"""

from __future__ import annotations

import functools
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from fanin_sim.campaign import TAIL, Campaign, Replay, Tell, run_campaign, tell_nobody
from fanin_sim.findings import Category, Finding, Tally
from fanin_sim.fuzz.codes import FaultKind, Violation
from fanin_sim.fuzz.plan import Fault, Plan
from fanin_sim.fuzz.schedule import Outcome, ScheduleRunner, describe
from fanin_sim.fuzz.trace_format import TraceFormatter
from fanin_sim.fuzz.workloads import WORKLOADS

MAX_TRIALS = 2_000

# At least these make a schedule a full one. Some crashes end one before. Within a node no packet is sent, and most
# schedules have one kind of fault.
MIN_NODES, MIN_POSITIONS, MIN_WRAPS, MIN_DELIVERIES, MIN_FAULT_KINDS = 3, 32, 2, 300, 2
CATEGORIES = {
    Violation.WRONG_RESULT: Category.WRONG_RESULT,
    Violation.DIFFERENT_RESULTS: Category.WRONG_RESULT,
    Violation.OPERATION_HANGS: Category.HANG,
    Violation.LIVELOCK: Category.HANG,
    Violation.SLOT_LEAKED: Category.LEAKED_SLOTS,
}
DISTRIBUTIONS = ("nodes", "positions", "wraps", "deliveries", "faults", "duration_ms", "slowest_ms")


def prepare() -> None:
    """Load the compiled code, or compile it."""
    _ = schedule_runner().fault_targets


def run(
    seconds: float, seed: int = 1, processes: int = 2, *, schedules: int | None = None, tell: Tell = tell_nobody
) -> FuzzTally:
    """Runs schedules in several processes. The arguments are those of `campaign.run_campaign`."""
    prepare()
    return run_campaign(Campaign(FuzzTally, _run_seed, _crash), seconds, seed, processes, schedules, tell)


def replay(seed: int) -> Replay:
    runner = schedule_runner()
    plan = runner.plan(seed)
    outcome, formatter = runner.run(plan, trace=True), TraceFormatter(plan)
    violation = describe(outcome) if outcome.violation else ""
    return Replay(formatter.heading(), formatter.lines(runner.trace_of(plan)), violation)


@functools.cache
def schedule_runner() -> ScheduleRunner:
    return ScheduleRunner()


def _run_seed(seed: int, tally: FuzzTally) -> None:
    runner = schedule_runner()
    outcome = runner.run(runner.plan(seed))
    tally.add(outcome)
    if outcome.violation:
        tally.findings.append(explain(runner, outcome))


def _crash(seed: int) -> Finding:
    workload = WORKLOADS[schedule_runner().plan(seed).workload].name
    return _finding(Violation.CRASH, seed, f"seed {seed}: {workload}: CRASH: the process has died")


def explain(runner: ScheduleRunner, broken: Outcome) -> Finding:
    """Shrinks a schedule that has violated an invariant; describes its faults and its last events."""
    short = shrink(runner, broken)
    formatter = TraceFormatter(short.plan)
    runner.run(short.plan, short.faults, trace=True)
    faults = (f"fault: {formatter.fault(fault)}" for fault in short.faults)
    events = list(formatter.lines(runner.trace_of(short.plan)))[-TAIL:]
    description = f"{formatter.heading()}: {describe(short.outcome)}"
    return _finding(broken.violation, broken.plan.seed, description, (*faults, *events))


def _finding(violation: Violation, seed: int, description: str, details: tuple[str, ...] = ()) -> Finding:
    replay = f"fanin sim --seed {seed} --trace"
    return Finding(category_of(violation), description, replay, seed, details)


def category_of(violation: Violation) -> Category:
    return CATEGORIES.get(violation, Category.OTHER)


# Counts


@dataclass
class FuzzTally(Tally):
    """The tally of a campaign. Its counts are:

    schedules: schedules run.
    full: schedules of at least 32 positions and 2 wraps of the slots that also have 3 nodes, 300 deliveries and 2 kinds
        of fault, or one node and one kind of fault.
    events, deliveries: events of devices; packets delivered.
    packets_lost: packets lost by a fault, or dropped because of a wrong ICRC.
    requests, failed_requests: requests that have ended; those with an error.
    peer_lost_reports: PEER_LOST completions whose missing members were checked.
    slot_shortages: jobs refused because a device had no slots for them.
    arrivals: messages that came before their rank had posted a request.
    """

    profiles: Counter[str] = field(default_factory=Counter)
    workloads: Counter[str] = field(default_factory=Counter)
    distributions: dict[str, Distribution] = field(
        default_factory=lambda: {name: Distribution() for name in DISTRIBUTIONS}
    )

    def add(self, outcome: Outcome) -> None:
        workload = WORKLOADS[outcome.plan.workload]
        kinds = Counter(fault.kind for fault in outcome.faults)
        values = (
            workload.topology.nodes,
            outcome.positions,
            outcome.positions // max(1, outcome.slots),
            outcome.deliveries,
            len(outcome.faults),
            outcome.duration // 1_000_000,
            outcome.slowest // 1_000_000,
        )
        self.counts.update(
            schedules=1,
            full=int(is_full(values, len(kinds))),
            events=outcome.events,
            deliveries=outcome.deliveries,
            packets_lost=kinds[FaultKind.LOSS] + outcome.dropped,
            requests=outcome.ended,
            failed_requests=outcome.failed,
            peer_lost_reports=outcome.peer_lost_reports,
            slot_shortages=outcome.shortages,
            arrivals=outcome.arrivals,
        )
        self.faults.update({kind.name: count for kind, count in kinds.items()})
        self.profiles[outcome.plan.profile.value] += 1
        self.workloads[workload.name] += 1
        for name, value in zip(DISTRIBUTIONS, values, strict=True):
            self.distributions[name].add(value)

    def merge(self, other: Tally) -> None:
        """Adds another tally, with its distributions if it has any."""
        super().merge(other)
        if isinstance(other, FuzzTally):
            self.profiles.update(other.profiles)
            self.workloads.update(other.workloads)
            for name, distribution in other.distributions.items():
                self.distributions[name].merge(distribution)

    def as_dict(self) -> dict[str, Any]:
        """The tally for JSON."""
        distributions = {name: distribution.as_dict() for name, distribution in self.distributions.items()}
        return {
            **super().as_dict(),
            "profiles": dict(self.profiles),
            "workloads": dict(self.workloads),
            "distributions": distributions,
        }


def is_full(values: tuple[int, ...], fault_kinds: int) -> bool:
    """Whether a schedule is a full one. `values`: in the order of DISTRIBUTIONS."""
    nodes, positions, wraps, deliveries = values[:4]
    if positions < MIN_POSITIONS or wraps < MIN_WRAPS:
        return False
    if nodes == 1:
        return fault_kinds >= 1
    return nodes >= MIN_NODES and deliveries >= MIN_DELIVERIES and fault_kinds >= MIN_FAULT_KINDS


class Distribution:
    """A histogram whose buckets are halves of powers of two. Quantiles are rounded down to a bucket's lower bound."""

    def __init__(self, counts: Counter[int] | None = None) -> None:
        self.counts: Counter[int] = Counter() if counts is None else counts

    def add(self, value: int) -> None:
        """Adds a value from 0 on."""
        low = value.bit_length() - 2
        self.counts[value if low < 1 else value >> low << low] += 1

    def merge(self, other: Distribution) -> None:
        self.counts.update(other.counts)

    def quantile(self, share: float) -> int:
        """The smallest bucket such that `share` of all values are not above it; 0 if there are no values."""
        left = share * self.counts.total()
        for value in sorted(self.counts):
            left -= self.counts[value]
            if left <= 0:
                return value
        return 0

    def as_dict(self) -> dict[str, int]:
        """Minimum, median and maximum for JSON."""
        return {"min": self.quantile(0), "median": self.quantile(0.5), "max": self.quantile(1)}


# Shrinking


class Shrunk(NamedTuple):
    """A shrunk schedule. `faults`: all that happen. `trials`: how many schedules were run to find it."""

    plan: Plan
    faults: tuple[Fault, ...]
    outcome: Outcome
    trials: int


def shrink(runner: ScheduleRunner, broken: Outcome) -> Shrunk:
    return _Search(runner, broken.violation).run(broken.plan, broken.faults)


class _Search:
    def __init__(self, runner: ScheduleRunner, violation: Violation) -> None:
        self.runner, self.violation = runner, violation
        self.trials = 0

    def run(self, plan: Plan, faults: tuple[Fault, ...]) -> Shrunk:
        before = None
        while before != (plan, faults):
            before = plan, faults
            faults = self._fewer_faults(plan, faults)
            plan = self._fewer_messages(plan, faults)
        return Shrunk(plan, faults, self.runner.run(plan, faults), self.trials)

    def _breaks(self, plan: Plan, faults: tuple[Fault, ...]) -> bool:
        self.trials += 1
        return self.trials < MAX_TRIALS and self.runner.run(plan, faults).violation == self.violation

    def _fewer_faults(self, plan: Plan, faults: tuple[Fault, ...]) -> tuple[Fault, ...]:
        """Removes runs of faults, long runs first."""
        length = len(faults)
        while length:
            start = 0
            while start < len(faults):
                fewer = faults[:start] + faults[start + length :]
                if self._breaks(plan, fewer):
                    faults = fewer
                else:
                    start += length
            length //= 2
        return faults

    def _fewer_messages(self, plan: Plan, faults: tuple[Fault, ...]) -> Plan:
        """Removes the last messages, and simplifies the plan."""
        most = min(plan.messages, len(WORKLOADS[plan.workload].postings))
        for count in range(most):
            if self._breaks(plan._replace(messages=count), faults):
                plan = plan._replace(messages=count)
                break
        for simpler in (plan._replace(first_position=0), plan._replace(pauses=0), plan._replace(gap=0)):
            if simpler != plan and self._breaks(simpler, faults):
                plan = simpler
        return plan

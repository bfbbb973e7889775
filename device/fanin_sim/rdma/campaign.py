"""Campaigns of the simulator of ordinary RDMA traffic: a violation is explained; counts of what has happened."""

import functools
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from fanin_sim.campaign import TAIL, Campaign, Replay, Tell, run_campaign, tell_nobody
from fanin_sim.findings import Category, Finding, Tally
from fanin_sim.rdma.codes import Violation
from fanin_sim.rdma.plan import plan_of
from fanin_sim.rdma.schedule import Outcome, ScheduleRunner, describe
from fanin_sim.rdma.trace_format import heading, lines_of
from fanin_sim.rdma.world import TOPOLOGIES

CATEGORIES = {
    Violation.WRONG_DATA: Category.WRONG_RESULT,
    Violation.WRONG_MEMORY: Category.WRONG_RESULT,
    Violation.LOST_MESSAGE: Category.WRONG_RESULT,
    Violation.MISSING_COMPLETION: Category.HANG,
    Violation.HANGS: Category.HANG,
    Violation.LIVELOCK: Category.HANG,
}


def category_of(violation: Violation) -> Category:
    return CATEGORIES.get(violation, Category.OTHER)


@dataclass
class RdmaTally(Tally):
    """The tally of a campaign: schedule.COUNTS, `schedules`, and `shared` (those with shared receive queues)."""

    profiles: Counter[str] = field(default_factory=Counter)
    topologies: Counter[str] = field(default_factory=Counter)

    def add(self, outcome: Outcome) -> None:
        self.counts.update(schedules=1, shared=outcome.plan.is_shared, **outcome.counts)
        self.faults.update({kind.name: count for kind, count in outcome.faults.items()})
        self.profiles[outcome.plan.profile.value] += 1
        self.topologies[TOPOLOGIES[outcome.plan.topology].name] += 1

    def merge(self, other: Tally) -> None:
        """Add another tally, with its distributions if it has any."""
        super().merge(other)
        if isinstance(other, RdmaTally):
            self.profiles.update(other.profiles)
            self.topologies.update(other.topologies)

    def as_dict(self) -> dict[str, Any]:
        """The tally for JSON."""
        return {**super().as_dict(), "profiles": dict(self.profiles), "topologies": dict(self.topologies)}


def prepare() -> None:
    """Load the compiled code, or compile it."""
    schedule_runner().prepare()


def run(
    seconds: float, seed: int = 1, processes: int = 2, *, schedules: int | None = None, tell: Tell = tell_nobody
) -> RdmaTally:
    """Run schedules in several processes. The arguments are those of `campaign.run_campaign`."""
    prepare()
    return run_campaign(Campaign(RdmaTally, _run_seed, _crash), seconds, seed, processes, schedules, tell)


def _run_seed(seed: int, tally: RdmaTally) -> None:
    runner = schedule_runner()
    outcome = runner.run(plan_of(seed))
    tally.add(outcome)
    if outcome.violation:
        tally.findings.append(explain(runner, outcome))


def _crash(seed: int) -> Finding:
    return _finding(Violation.CRASH, seed, f"{heading(plan_of(seed))}: CRASH: the process has died")


def explain(runner: ScheduleRunner, broken: Outcome) -> Finding:
    outcome = runner.run(broken.plan, trace=True)
    events = list(lines_of(runner.trace_of(broken.plan)))[-TAIL:]
    description = f"{heading(broken.plan)}: {describe(outcome)}"
    return _finding(broken.violation, broken.plan.seed, description, tuple(events))


def _finding(violation: Violation, seed: int, description: str, details: tuple[str, ...] = ()) -> Finding:
    replay_command = f"fanin sim --rdma --seed {seed} --trace"
    return Finding(category_of(violation), description, replay_command, seed, details)


@functools.cache
def schedule_runner() -> ScheduleRunner:
    return ScheduleRunner()


def replay(seed: int) -> Replay:
    runner, plan = schedule_runner(), plan_of(seed)
    outcome = runner.run(plan, trace=True)
    violation = describe(outcome) if outcome.violation else ""
    return Replay(heading(plan), lines_of(runner.trace_of(plan)), violation)

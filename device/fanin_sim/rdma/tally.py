"""Statistics of a campaign: counts by what has happened."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from fanin_sim.findings import Category, Tally
from fanin_sim.rdma.codes import Violation
from fanin_sim.rdma.schedule import Outcome
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

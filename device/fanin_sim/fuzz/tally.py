"""Statistics of a fuzzing campaign: counts, and distributions over its schedules."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from fanin_sim.findings import Category, Tally
from fanin_sim.fuzz.codes import FaultKind, Violation
from fanin_sim.fuzz.schedule import Outcome
from fanin_sim.fuzz.workloads import WORKLOADS

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


def category_of(violation: Violation) -> Category:
    return CATEGORIES.get(violation, Category.OTHER)


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

"""What many schedules have met: counts that can be added up, and distributions of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from fanin_sim.fuzz.codes import FaultKind
from fanin_sim.fuzz.workloads import SCENES
from fanin_sim.fuzz.schedule import Outcome

# What a schedule must have at least to count as a full one. Some disasters end all before. Within a node nothing is
# sent, and one kind of fault is all that most meet there.
FEWEST_NODES, FEWEST_POSITIONS, FEWEST_WRAPS, FEWEST_DELIVERIES, FEWEST_KINDS = 3, 32, 2, 300, 2


class Spread:
    """A distribution by halves of powers of two: exact enough to tell its middle and its ends."""

    def __init__(self, counts: Counter[int] | None = None) -> None:
        self.counts: Counter[int] = Counter() if counts is None else counts

    def add(self, value: int) -> None:
        """One more value, not negative."""
        low = value.bit_length() - 2
        self.counts[value if low < 1 else value >> low << low] += 1

    def merge(self, other: Spread) -> None:
        """All values of another one."""
        self.counts.update(other.counts)

    def quantile(self, share: float) -> int:
        """A value that `share` of all are not above, rounded down; 0 if there are none."""
        left = share * self.counts.total()
        for value in sorted(self.counts):
            left -= self.counts[value]
            if left <= 0:
                return value
        return 0

    def as_dict(self) -> dict[str, int]:
        """For JSON: least, middle and greatest, each rounded down to half a power of two."""
        return {"least": self.quantile(0), "middle": self.quantile(0.5), "greatest": self.quantile(1)}


COUNTS = ("schedules", "full", "events", "deliveries", "packets_lost")  # of a Tally
COUNTS_OF_RANKS = ("requests", "failed_requests", "accusations", "shortages")
SPREADS = ("nodes", "positions", "wraps", "deliveries", "faults", "duration_ms", "slowest_ms")


@dataclass
class Failure:
    """A schedule that has broken something. `faults`: the shortest list that it could be shrunk to; `tail`: of the
    trace of that."""

    seed: int
    violation: str
    scene: str
    heading: str = ""
    faults: list[str] = field(default_factory=list)
    tail: list[str] = field(default_factory=list)


@dataclass
class Tally:
    """Counts over schedules. full: those with at least 32 positions, 2 wraps of the slots, and 3 nodes, 300 deliveries
    and 2 kinds of fault, or within a node one fault. packets_lost: by chance, or corrupted and found out. accusations:
    PEER_LOST whose names were checked. shortages: jobs refused for want of slots. `spreads`: distributions, by name."""

    schedules: int = 0
    full: int = 0
    events: int = 0
    deliveries: int = 0
    packets_lost: int = 0
    requests: int = 0
    failed_requests: int = 0
    accusations: int = 0
    shortages: int = 0
    wall_s: float = 0.0
    faults: Counter[str] = field(default_factory=Counter)
    moods: Counter[str] = field(default_factory=Counter)
    scenes: Counter[str] = field(default_factory=Counter)
    spreads: dict[str, Spread] = field(default_factory=lambda: {name: Spread() for name in SPREADS})
    failures: list[Failure] = field(default_factory=list)

    @property
    def wrong_results(self) -> int:
        """Schedules with a result that was not right, or not the same everywhere."""
        return sum(failure.violation in ("WRONG_RESULT", "DIFFERENT_RESULTS") for failure in self.failures)

    @property
    def hangs(self) -> int:
        """Schedules with a request that did not end."""
        return sum(failure.violation in ("OPERATION_HANGS", "PACKET_STORM") for failure in self.failures)

    def add(self, outcome: Outcome) -> None:
        """One more schedule."""
        scene = SCENES[outcome.plan.scene]
        kinds = Counter(fault.kind for fault in outcome.faults)
        values = (
            scene.topology.nodes,
            outcome.positions,
            outcome.positions // max(1, outcome.slots),
            outcome.deliveries,
            len(outcome.faults),
            outcome.duration // 1_000_000,
            outcome.slowest // 1_000_000,
        )
        self.schedules += 1
        self.full += is_full(values, len(kinds))
        self.events += outcome.events
        self.deliveries += outcome.deliveries
        self.packets_lost += kinds[FaultKind.LOSS] + outcome.dropped
        self.requests += outcome.ended
        self.failed_requests += outcome.failed
        self.accusations += outcome.accusations
        self.shortages += outcome.shortages
        self.faults.update({kind.name: count for kind, count in kinds.items()})
        self.moods[outcome.plan.mood.value] += 1
        self.scenes[scene.name] += 1
        for name, value in zip(SPREADS, values, strict=True):
            self.spreads[name].add(value)

    def merge(self, others: Iterable[Tally]) -> None:
        """Add what others have counted."""
        for other in others:
            for name in COUNTS + COUNTS_OF_RANKS:
                setattr(self, name, getattr(self, name) + getattr(other, name))
            for name in ("faults", "moods", "scenes"):
                getattr(self, name).update(getattr(other, name))
            for name, spread in other.spreads.items():
                self.spreads[name].merge(spread)
            self.failures += other.failures
            self.wall_s = max(self.wall_s, other.wall_s)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        told = {name: value for name, value in vars(self).items() if name not in ("spreads", "failures")}
        told |= {name: dict(getattr(self, name)) for name in ("faults", "moods", "scenes")}
        told["distribution"] = {name: spread.as_dict() for name, spread in self.spreads.items()}
        told["wrong_results"], told["hangs"] = self.wrong_results, self.hangs
        told["failures"] = [asdict(failure) for failure in self.failures]
        return told


def is_full(values: tuple[int, ...], kinds: int) -> bool:
    """Whether a schedule is a full one. values: as in SPREADS."""
    nodes, positions, wraps, deliveries = values[:4]
    if positions < FEWEST_POSITIONS or wraps < FEWEST_WRAPS:
        return False
    if nodes == 1:
        return kinds >= 1
    return nodes >= FEWEST_NODES and deliveries >= FEWEST_DELIVERIES and kinds >= FEWEST_KINDS

"""The results of a test tool: what it has counted, and the defects that it has found.

The fuzzers, the rounds of real faults and `fanin soak` use these classes, so that their results are added up and
printed in one way.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any


class Category(enum.StrEnum):
    """The kinds of defects. The values are the keys in JSON."""

    WRONG_RESULT = "wrong_results"
    HANG = "hangs"
    LEAKED_SLOTS = "leaked_slots"
    LEAKED_FILES = "leaked_files"
    LEAKED_MEMORY = "leaked_memory"
    OTHER = "other_violations"


@dataclass(frozen=True)
class Finding:
    """A defect.

    category: the kind of defect.
    description: one line: what has happened, and where.
    replay: the command that shows it again.
    seed: the seed of the schedule or round.
    details: further lines, such as the faults and the last events.
    """

    category: Category
    description: str
    replay: str
    seed: int
    details: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """The finding for JSON."""
        return {
            "category": self.category.value,
            "description": self.description,
            "replay": self.replay,
            "seed": self.seed,
            "details": list(self.details),
        }


@dataclass
class Tally:
    """What a test tool has done and found.

    counts: how often each thing has happened, by name, for example "schedules" or "packets_lost".
    faults: faults injected, by kind.
    findings: the defects.
    seconds: wall time.
    """

    counts: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def is_clean(self) -> bool:
        return not self.findings

    def number_of(self, category: Category) -> int:
        return sum(finding.category == category for finding in self.findings)

    def by_category(self) -> dict[str, int]:
        """Number of findings by the name of every category."""
        return {category.value: self.number_of(category) for category in Category}

    def merge(self, other: Tally) -> None:
        """Adds the results of another tally. Both ran at the same time: the longer wall time is kept."""
        self.counts.update(other.counts)
        self.faults.update(other.faults)
        self.findings += other.findings
        self.seconds = max(self.seconds, other.seconds)

    def merge_all(self, others: Iterable[Tally]) -> None:
        for other in others:
            self.merge(other)

    def as_dict(self) -> dict[str, Any]:
        """The tally for JSON."""
        return {
            **self.counts,
            "seconds": self.seconds,
            "faults": dict(self.faults),
            "defects": self.by_category(),
            "findings": [finding.as_dict() for finding in self.findings],
        }

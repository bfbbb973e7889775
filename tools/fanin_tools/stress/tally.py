"""What a soak run has done, and what it has found: one table of counts, of which some must be 0."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Finding:
    """Something that must not be. replay: the command that shows it again."""

    what: str
    replay: str


@dataclass
class Tally:
    """Counts over all rounds.

    schedules, deliveries: of the simulator; inputs: hostile ones; met: real faults that came while ranks were reducing
    messages: right results of ranks amid real faults
    faults: real and simulated, by kind; not_done: what this machine can not do, and what it lacks for it
    """

    seed: int
    seconds: float = 0.0
    schedules: int = 0
    deliveries: int = 0
    inputs: int = 0
    rounds: int = 0
    met: int = 0
    messages: int = 0
    packets_lost: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    simulated_faults: Counter[str] = field(default_factory=Counter)
    wrong_results: int = 0
    hangs: int = 0
    other_violations: int = 0
    leaked_slots: int = 0
    leaked_files: int = 0
    leaked_memory: int = 0
    findings: list[Finding] = field(default_factory=list)
    not_done: dict[str, str] = field(default_factory=dict)

    @property
    def zeros(self) -> dict[str, int]:
        """What must be 0."""
        return {
            "wrong results": self.wrong_results,
            "hangs": self.hangs,
            "other violations": self.other_violations,
            "leaks of segs": self.leaked_slots,
            "leaks of files": self.leaked_files,
            "leaks of memory": self.leaked_memory,
        }

    @property
    def is_clean(self) -> bool:
        """Whether all that must be 0 is."""
        return not any(self.zeros.values())

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        counters = {"faults": dict(self.faults), "simulated_faults": dict(self.simulated_faults)}
        return asdict(self) | counters

"""What a run of hostile input has done, and what it has found."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any

MOST_FINDINGS = 20  # that are kept: one fault is usually met again and again


@dataclass
class Tally:
    """Counts by kind. `findings`: what must not happen, each with the seed that replays it; empty if all is well."""

    seed: int
    packets: int = 0  # into engines, in this process
    datagrams: int = 0  # over UDP to devices
    messages: int = 0  # to control sockets
    work_requests: int = 0
    scribbles: int = 0  # over rings and doorbells
    rounds: int = 0  # of the job that behaves, each with right bits
    accepted: int = 0  # packets that an engine has taken
    drops: Counter[str] = field(default_factory=Counter)  # packets that it has not, by reason
    findings: list[str] = field(default_factory=list)

    def find(self, what: str) -> None:
        """Something that must not happen."""
        if len(self.findings) < MOST_FINDINGS:
            self.findings.append(f"{what} (seed {self.seed})")

    def as_dict(self) -> dict[str, Any]:
        """For a table or JSON."""
        return asdict(self) | {"drops": dict(self.drops)}

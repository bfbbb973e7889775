"""The tally of a stress run: how much work was done, and every violation with the command that repeats it.

Every kind of stress run (simulation, fuzzing, real faults) adds to one tally.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

MAX_FINDINGS = 20  # of one run that are kept: the same defect usually appears many times


class Work(StrEnum):
    """What is counted as work. The values are the keys in JSON."""

    SCHEDULES = "schedules"  # run by the simulator
    DELIVERIES = "deliveries"  # packets delivered in these schedules
    PACKETS = "packets"  # hostile packets given to engines in this process
    ACCEPTED = "accepted"  # those that an engine has accepted
    DATAGRAMS = "datagrams"  # hostile packets sent to devices over UDP
    MESSAGES = "messages"  # hostile messages to control sockets
    WORK_REQUESTS = "work_requests"  # hostile work requests
    RING_OVERWRITES = "ring_overwrites"  # random bytes written over rings and doorbells
    CONTROL_ROUNDS = "control_rounds"  # verified collectives of the job that runs beside hostile input
    FAULT_ROUNDS = "fault_rounds"  # rounds of real faults
    FAULTS_DURING_WORK = "faults_during_work"  # real faults that came while ranks were reducing
    RIGHT_RESULTS = "right_results"  # of ranks in rounds of real faults
    PACKETS_LOST = "packets_lost"  # in the simulator and by real faults


HOSTILE_INPUT = (Work.PACKETS, Work.DATAGRAMS, Work.MESSAGES, Work.WORK_REQUESTS, Work.RING_OVERWRITES)


class Violation(StrEnum):
    """What must not happen. The values are the keys in JSON."""

    WRONG_RESULT = "wrong_results"
    HANG = "hangs"
    LEAKED_SLOTS = "leaked_slots"
    LEAKED_FILES = "leaked_files"
    LEAKED_MEMORY = "leaked_memory"
    OTHER = "other_violations"


@dataclass(frozen=True)
class Finding:
    """One violation: a description for people, and the shell command that repeats the run."""

    what: str
    replay: str


@dataclass
class Tally:
    """Counts and findings of a stress run.

    work: amount of work by kind
    faults, simulated_faults: injected faults by kind
    errors: errors of ranks that the injected fault had to cause, by name of the exception
    drops: hostile packets that engines and devices dropped, by reason
    violations: number of violations by kind; a clean run has none
    findings: the first violations of each run
    not_done: what this machine can not do, and what it lacks for that
    """

    seed: int
    seconds: float = 0.0
    work: Counter[Work] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    simulated_faults: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    drops: Counter[str] = field(default_factory=Counter)
    violations: Counter[Violation] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)
    not_done: dict[str, str] = field(default_factory=dict)
    _replay: str = ""
    _context: str = ""
    _kept: int = 0

    def begin(self, replay: str, context: str = "") -> None:
        """Begin a run. Its findings carry the command `replay` and the words `context`."""
        self._replay, self._context, self._kept = replay, context, 0

    def find(self, violation: Violation, what: str, count: int = 1) -> None:
        """Record `count` violations that have one description."""
        self.violations[violation] += count
        if self._kept < MAX_FINDINGS:
            self.findings.append(Finding(f"{self._context}: {what}" if self._context else what, self._replay))
            self._kept += 1

    @property
    def is_clean(self) -> bool:
        """Whether there is no violation."""
        return not self.violations.total()

    def as_dict(self) -> dict[str, Any]:
        """The tally for JSON; counts of work and violations are keys of the object itself, zeros included."""
        counts = {kind.value: self.work[kind] for kind in Work} | {
            kind.value: self.violations[kind] for kind in Violation
        }
        counters = {name: dict(getattr(self, name)) for name in ("faults", "simulated_faults", "errors", "drops")}
        findings = [asdict(finding) for finding in self.findings]
        whole = {"seed": self.seed, "seconds": self.seconds}
        return whole | counts | counters | {"findings": findings, "not_done": self.not_done}

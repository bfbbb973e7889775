"""The tally of a stress run: how much work was done, and every violation with the command that repeats it.

Every kind of stress run (simulation, fuzzing, real faults) adds to one tally.
"""

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from fanin_sim.findings import Category, Finding

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
    violations: Counter[Category] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)
    not_done: dict[str, str] = field(default_factory=dict)
    _replay: str = ""
    _seed: int = 0
    _context: str = ""
    _kept: int = 0

    def begin(self, replay: str, context: str = "", seed: int | None = None) -> None:
        """Begin a run. Its findings carry `replay`, `context` and the seed, by default that of the tally."""
        self._replay, self._context, self._kept = replay, context, 0
        self._seed = self.seed if seed is None else seed

    def find(self, violation: Category, what: str, count: int = 1, details: tuple[str, ...] = ()) -> None:
        """Record `count` violations that have one description."""
        self.violations[violation] += count
        if self._kept < MAX_FINDINGS:
            description = f"{self._context}: {what}" if self._context else what
            self.findings.append(Finding(violation, description, self._replay, self._seed, details))
            self._kept += 1

    @property
    def is_clean(self) -> bool:
        """Whether there is no violation."""
        return not self.violations.total()

    def as_dict(self) -> dict[str, Any]:
        """The tally for JSON; counts of work and violations are keys of the object itself, zeros included."""
        counts = {kind.value: self.work[kind] for kind in Work} | {
            kind.value: self.violations[kind] for kind in Category
        }
        counters = {name: dict(getattr(self, name)) for name in ("faults", "simulated_faults", "errors", "drops")}
        findings = [finding.as_dict() for finding in self.findings]
        whole = {"seed": self.seed, "seconds": self.seconds}
        return whole | counts | counters | {"findings": findings, "not_done": self.not_done}

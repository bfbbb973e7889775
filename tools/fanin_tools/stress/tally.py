"""The tally of a stress run (simulation, fuzzing, real faults): work, and violations with the command to repeat."""

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from fanin_sim.findings import Category, Finding

MAX_FINDINGS = 20  # of one run: the same defect usually appears many times


class Work(StrEnum):
    """The values are the keys in JSON."""

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

    work: by kind. faults, simulated_faults: injected, by kind. errors: of ranks, which the fault had to cause, by
    exception. drops: hostile packets dropped, by reason. violations: by kind; none in a clean run. findings: the first
    violations of each run. not_done: what this machine can not do, and what it lacks for that.
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
        """Its findings carry `replay`, `context` and the seed, by default the tally's."""
        self._replay, self._context, self._kept = replay, context, 0
        self._seed = self.seed if seed is None else seed

    def find(self, violation: Category, what: str, count: int = 1, details: tuple[str, ...] = ()) -> None:
        """`count` violations with one description."""
        self.violations[violation] += count
        if self._kept < MAX_FINDINGS:
            description = f"{self._context}: {what}" if self._context else what
            self.findings.append(Finding(violation, description, self._replay, self._seed, details))
            self._kept += 1

    @property
    def is_clean(self) -> bool:
        """Without violations."""
        return not self.violations.total()

    def as_dict(self) -> dict[str, Any]:
        """For JSON; counts of work and violations are keys of the object itself, zeros included."""
        counts = {kind.value: self.work[kind] for kind in Work} | {
            kind.value: self.violations[kind] for kind in Category
        }
        counters = {name: dict(getattr(self, name)) for name in ("faults", "simulated_faults", "errors", "drops")}
        findings = [finding.as_dict() for finding in self.findings]
        whole = {"seed": self.seed, "seconds": self.seconds}
        return whole | counts | counters | {"findings": findings, "not_done": self.not_done}

"""Campaigns of lives: a violation is explained by its last events."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from fanin_sim.campaign import TAIL, Campaign, Replay, Tell, run_campaign, tell_nobody
from fanin_sim.findings import Category, Finding, Tally
from fanin_sim.hostile.life import Life, Outcome


@dataclass
class HostileTally(Tally):
    """The tally of a campaign. faults: hostile packets by their error. reasons: all packets by their counter."""

    reasons: Counter[str] = field(default_factory=Counter)

    def add(self, outcome: Outcome) -> None:
        packets = sum(outcome.attacks.values())
        self.counts.update(schedules=1, packets=packets, honest=outcome.honest, completions=outcome.completions)
        self.faults.update(outcome.attacks)
        self.reasons.update(outcome.reasons)

    def merge(self, other: Tally) -> None:
        super().merge(other)
        if isinstance(other, HostileTally):
            self.reasons.update(other.reasons)

    def as_dict(self) -> dict[str, Any]:
        """The tally for JSON."""
        return {**super().as_dict(), "reasons": dict(self.reasons)}


def run(
    seconds: float, seed: int = 1, processes: int = 2, *, schedules: int | None = None, tell: Tell = tell_nobody
) -> HostileTally:
    """Run lives in several processes. The arguments are those of `campaign.run_campaign`."""
    Life(0).run()  # compiles
    return run_campaign(Campaign(HostileTally, _run_seed, _crash), seconds, seed, processes, schedules, tell)


def _run_seed(seed: int, tally: HostileTally) -> None:
    outcome = Life(seed).run()
    tally.add(outcome)
    if outcome.violation:
        tally.findings.append(_finding(seed, outcome.violation, tuple(outcome.trace[-TAIL:])))


def _crash(seed: int) -> Finding:
    return _finding(seed, "the process has died")


def _finding(seed: int, what: str, details: tuple[str, ...] = ()) -> Finding:
    command = f"python -m fanin_sim.hostile --seed {seed} --trace"
    return Finding(Category.OTHER, f"hostile packets, seed {seed}: {what}", command, seed, details)


def replay(seed: int) -> Replay:
    outcome = Life(seed).run()
    lines: Iterator[str] = iter([*outcome.trace, f"digest {outcome.digest}"])
    return Replay(f"hostile packets, seed {seed}", lines, outcome.violation)

"""What rounds of real faults have met, and what they have found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Tally:
    """What has happened.

    met: faults that came while ranks were reducing; results: right ones; errors: of ranks, by name, where they are due
    wrong, hangs, undue (errors that are not due), crashes (devices that ended by themselves), failures (exceptions that
    have ended a part of a round) and leaks must be 0; `findings` says of each, with the seed of its round, what it was
    """

    rounds: int = 0
    met: int = 0
    results: int = 0
    packets_lost: int = 0
    wrong: int = 0
    hangs: int = 0
    undue: int = 0
    crashes: int = 0
    failures: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    leaks: Counter[str] = field(default_factory=Counter)
    findings: list[tuple[int, str]] = field(default_factory=list)
    _round: tuple[int, str] = (0, "")

    def begin(self, seed: int, what: str, kind: str) -> None:
        """A round, in words, and the kind of its fault."""
        self._round = seed, what
        self.rounds += 1
        self.faults[kind] += 1

    def result(self, wrong: int) -> None:
        """A rank has its results, so many of them wrong."""
        self.results += not wrong
        if wrong:
            self.wrong += wrong
            self._find(f"{wrong} wrong results of a rank")

    def error(self, name: str, is_due: bool) -> None:
        """A rank has an error."""
        self.errors[name] += is_due
        if not is_due:
            self.undue += 1
            self._find(f"{name}, which this fault does not cause")

    def hang(self, ranks: Sequence[int]) -> None:
        """Ranks that have got no answer."""
        self.hangs += len(ranks)
        self._find(f"ranks {', '.join(map(str, ranks))} hang")

    def crash(self, device: str) -> None:
        """A device has ended, and not by a fault."""
        self.crashes += 1
        self._find(f"{device} has ended by itself")

    def failure(self, error: Exception) -> None:
        """A part of the round could not be done to its end."""
        self.failures += 1
        self._find(f"{type(error).__name__}: {error}")

    def leak(self, what: str, devices: Mapping[str, int]) -> None:
        """Devices that hold something they should not."""
        if devices:
            self.leaks[what] += len(devices)
            self._find(f"{what} leak: {', '.join(f'{name} {count}' for name, count in devices.items())}")

    def _find(self, what: str) -> None:
        seed, where = self._round
        self.findings.append((seed, f"{where}: {what}"))

    def as_dict(self) -> dict[str, Any]:
        """For JSON and tables."""
        kept = {name: value for name, value in vars(self).items() if not name.startswith("_")}
        return kept | {name: dict(kept[name]) for name in ("faults", "errors", "leaks")}

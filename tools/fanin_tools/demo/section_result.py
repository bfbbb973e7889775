"""What a scene of the demonstration showed, in one line of a table."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SectionResult:
    """scene: what was shown; route: of its jobs; setting: with what; outcome: what came out; verified: as it must."""

    section: str
    route: str
    setting: str
    outcome: str
    verified: bool

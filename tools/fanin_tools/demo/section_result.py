"""What a scene of the demonstration showed, in one line of a table."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """scene: what was shown; route: of its jobs; setting: with what; outcome: what came out; verified: as it must."""

    scene: str
    route: str
    setting: str
    outcome: str
    verified: bool

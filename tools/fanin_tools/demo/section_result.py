"""The result of a section of the demonstration: a row of a table."""

from dataclasses import dataclass


@dataclass(frozen=True)
class SectionResult:
    """verified: the outcome is as it must be."""

    section: str
    route: str
    setting: str
    outcome: str
    verified: bool

"""The result of a section of the demonstration, as a row of a table."""

from dataclasses import dataclass


@dataclass(frozen=True)
class SectionResult:
    """A row: the section, the route of its jobs, the setting, the outcome, and whether the outcome is as it must be."""

    section: str
    route: str
    setting: str
    outcome: str
    verified: bool

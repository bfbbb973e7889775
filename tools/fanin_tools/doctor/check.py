"""What one look at the machine found."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """ok: there; limited: works, slower or in part; missing: something optional is not there; broken: nothing works."""

    OK = "ok"
    LIMITED = "limited"
    MISSING = "missing"
    BROKEN = "broken"


@dataclass(frozen=True)
class CheckResult:
    """subject: what was looked at; detail: what is there; enables: what it is needed for; remedy: if it is not ok."""

    subject: str
    level: Level
    detail: str
    enables: str
    remedy: str = ""

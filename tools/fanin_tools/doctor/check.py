"""The result of one check of the machine."""

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """ok: present; limited: slower or in part; missing: something can not work without it; absent: as on most machines;
    broken: nothing works."""

    OK = "ok"
    LIMITED = "limited"
    MISSING = "missing"
    ABSENT = "absent"
    BROKEN = "broken"


@dataclass(frozen=True)
class CheckResult:
    """subject: what was checked. detail: what was found. enables: what needs it. remedy: what to do if it is not ok."""

    subject: str
    level: Level
    detail: str
    enables: str
    remedy: str = ""

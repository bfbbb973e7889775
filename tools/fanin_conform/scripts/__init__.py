"""The scripts, one file for each group."""

from fanin_conform.scripts import (
    arithmetic,
    checks,
    duplicates,
    failure,
    headers,
    lanes,
    limits,
    membership,
    recovery,
    segments,
)

__all__ = [
    "arithmetic",
    "checks",
    "duplicates",
    "failure",
    "headers",
    "lanes",
    "limits",
    "membership",
    "recovery",
    "segments",
]

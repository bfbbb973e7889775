"""The scripts, one file for each group."""

from fanin_conform.scripts import (
    ahead,
    arithmetic,
    checks,
    duplicates,
    failure,
    groups,
    headers,
    lanes,
    limits,
    membership,
    middle,
    recovery,
    segments,
    silence,
)

__all__ = [
    "ahead",
    "arithmetic",
    "checks",
    "duplicates",
    "failure",
    "groups",
    "headers",
    "lanes",
    "limits",
    "membership",
    "middle",
    "recovery",
    "segments",
    "silence",
]

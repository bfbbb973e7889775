"""The description of a job as text: the file that `fanin run` gives its ranks.

A line is a word and its value, or a comment after "#". `host/fanin/core/job/job_text.c` reads it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

HEADING = "# a job of Fanin; docs/collectives.md says what the words mean"
WORDS = ("jid", "key", "route", "chunk", "slots", "reproducible")


def place_text(address: str, ring: int | None, switches: Sequence[str]) -> str:
    """Place of a NIC: its address, ring counted from 1 (0: none), the offloading switches above it, lowest first."""
    return " ".join((address, str(0 if ring is None else ring + 1), *switches))


def job_text(job: Mapping[str, Any]) -> str:
    """The text of a job, which has the members of `fanin.Job`."""
    places: dict[int, str] = {}
    for node in job["nodes"]:
        places |= dict.fromkeys(node["ranks"], place_text(node["address"], node["ring"], node["switches"]))
    lines = [HEADING, *(f"{word} {job[word]}" for word in WORDS), f"wide {job['wide']:d}"]
    lines += [f"rank {places[rank]}" for rank in sorted(places)]
    return "".join(f"{line}\n" for line in lines)

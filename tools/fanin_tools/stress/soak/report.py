"""A soak run as one table."""

from __future__ import annotations

from collections import Counter
from typing import Any

from fanin_tools.stress.tally import Tally


def rows(tally: Tally) -> list[tuple[str, str]]:
    """The lines of the table."""
    lines = [
        ("seconds", f"{tally.seconds:.0f}"),
        ("schedules simulated", f"{tally.schedules:,}"),
        ("packets delivered in them", f"{tally.deliveries:,}"),
        ("faults simulated", _by_kind(tally.simulated_faults)),
        ("hostile inputs", f"{tally.inputs:,}"),
        ("rounds of real faults", f"{tally.rounds:,}"),
        ("real faults", _by_kind(tally.faults)),
        ("those that met requests under way", f"{tally.met:,}"),
        ("right results amid them", f"{tally.messages:,}"),
        ("packets lost, real and simulated", f"{tally.packets_lost:,}"),
    ]
    lines += [(name, f"{count:,}") for name, count in tally.zeros.items()]
    return lines + [(f"not done: {what}", f"this machine lacks {lack}") for what, lack in tally.not_done.items()]


def _by_kind(kinds: Counter[str]) -> str:
    return ", ".join(f"{name.lower().replace('_', ' ')} {count:,}" for name, count in sorted(kinds.items())) or "none"


def table(tally: Tally) -> Any:
    """For a terminal; what must be 0 and is not stands out."""
    from rich.table import Table

    verdict = "clean" if tally.is_clean else "NOT CLEAN"
    shown = Table(title=f"soak, seed {tally.seed}: {verdict}", title_justify="left", show_header=False)
    for name, value in rows(tally):
        style = "bold red" if tally.zeros.get(name) else None
        shown.add_row(name, value, style=style)
    return shown


def findings(tally: Tally) -> list[str]:
    """A line for each thing that must not be, with the command that replays it."""
    return [f"{finding.what}\n    again: {finding.replay}" for finding in tally.findings]

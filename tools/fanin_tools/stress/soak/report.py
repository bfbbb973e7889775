"""A soak run as one table."""

from collections import Counter
from typing import Any

from fanin_sim.findings import Category
from fanin_tools.stress.tally import HOSTILE_INPUT, Tally, Work

VIOLATION_ROWS = {
    Category.WRONG_RESULT: "wrong results",
    Category.HANG: "hangs",
    Category.OTHER: "other violations",
    Category.LEAKED_SLOTS: "leaks of segment buffers",
    Category.LEAKED_FILES: "leaks of files",
    Category.LEAKED_MEMORY: "leaks of memory",
}


def rows(tally: Tally) -> list[tuple[str, str, bool]]:
    """Name, value, and whether the value is a violation."""
    work = tally.work
    hostile_input = sum(work[kind] for kind in HOSTILE_INPUT)
    shown = [
        ("seconds", f"{tally.seconds:.0f}"),
        ("schedules simulated", f"{work[Work.SCHEDULES]:,}"),
        ("packets delivered in them", f"{work[Work.DELIVERIES]:,}"),
        ("faults simulated", _by_kind(tally.simulated_faults)),
        ("hostile inputs", f"{hostile_input:,}"),
        ("rounds of real faults", f"{work[Work.FAULT_ROUNDS]:,}"),
        ("real faults", _by_kind(tally.faults)),
        ("faults during a collective", f"{work[Work.FAULTS_DURING_WORK]:,}"),
        ("right results in these rounds", f"{work[Work.RIGHT_RESULTS]:,}"),
        ("packets lost, real and simulated", f"{work[Work.PACKETS_LOST]:,}"),
    ]
    missing = [(f"not done: {what}", f"this machine lacks {lack}") for what, lack in tally.not_done.items()]
    violations = [(name, tally.violations[violation]) for violation, name in VIOLATION_ROWS.items()]
    return [
        *((name, value, False) for name, value in shown),
        *((name, f"{count:,}", count > 0) for name, count in violations),
        *((name, value, False) for name, value in missing),
    ]


def _by_kind(kinds: Counter[str]) -> str:
    return ", ".join(f"{name.lower().replace('_', ' ')} {count:,}" for name, count in sorted(kinds.items())) or "none"


def table(tally: Tally) -> Any:
    """For a terminal, with violations in red."""
    from rich.table import Table

    verdict = "clean" if tally.is_clean else "NOT CLEAN"
    shown = Table(title=f"soak, seed {tally.seed}: {verdict}", title_justify="left", show_header=False)
    for name, value, is_violation in rows(tally):
        shown.add_row(name, value, style="bold red" if is_violation else None)
    return shown


def findings(tally: Tally) -> list[str]:
    """Two lines for each: what happened, and the command that repeats it."""
    return [f"{finding.description}\n    to repeat: {finding.replay}" for finding in tally.findings]

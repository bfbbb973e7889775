"""A comparison as a table: for a terminal and for the documentation."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fanin_tools.bench.compare import Comparison, Row
from fanin_tools.quantities import render_size, render_time

WIDTH = 120  # without a terminal
TIMES = "Median time of the slowest rank, and half the distance of the quartiles; bandwidth: algorithm's, best of ours"
RATIO = "ratio: time of the best peer in that of ours, in the order of the columns"
OF_BOUND = "of bound: least time in ours"


def explanation(found: Sequence[Comparison]) -> str:
    """The explanation of the columns that these tables have."""
    ratio = [RATIO] if any(map(_has_peers, found)) else []
    return "; ".join([TIMES, *ratio, *([OF_BOUND] if any(map(_has_bound, found)) else [])]) + "."


def columns(found: Comparison) -> list[str]:
    """The headings of the columns."""
    names = [f"{name} (not all offloaded)" if found.shortfalls.get(name) else name for name, _ in found.contenders]
    ratio = ["ratio"] if _has_peers(found) else []
    return ["bytes", *names, "bandwidth", *ratio, *(["of bound"] if _has_bound(found) else [])]


def lines(found: Comparison) -> list[list[str]]:
    """The cells of the table: a row for each size."""
    return [_line(found, size) for size in found.sizes]


def _line(found: Comparison, size: int) -> list[str]:
    rows = [found.row(name, size) for name, _ in found.contenders]
    ours = [row for row in rows if row.ours]
    best = min(ours, key=lambda row: row.microseconds.median)
    cells = [render_size(size), *map(_time, rows), f"{render_size(best.bandwidth)}/s"]
    ratios = [found.ratio(row.contender, size) for row in ours]
    if _has_peers(found):
        cells.append(" / ".join(f"{ratio:.2f}" for ratio in ratios if ratio is not None))
    if best.bound_us is not None:
        cells.append(f"{best.bound_us / best.microseconds.median:.1%}")
    return cells


def _time(row: Row) -> str:
    return f"{render_time(row.microseconds.median * 1e-6)} ±{row.microseconds.spread / 2:.0%}"


def _has_peers(found: Comparison) -> bool:
    return not all(ours for _, ours in found.contenders)


def _has_bound(found: Comparison) -> bool:
    return found.rows[0].bound_us is not None


def table(found: Comparison) -> Any:
    """The table for a terminal."""
    from rich.table import Table

    caption = " ".join([explanation([found]), *(f"{remark}." for remark in found.remarks)])
    shown = Table(title=f"allreduce f32 SUM, {found.setup.title}", title_justify="left", caption=caption)
    for column in columns(found):
        shown.add_column(column, justify="right")
    for line in lines(found):
        shown.add_row(*line)
    return shown


def markdown(found: Comparison) -> str:
    """The table for the documentation."""
    heading = columns(found)
    rows = [heading, ["---"] * len(heading), *lines(found)]
    remarks = "".join(f"\n{remark}.\n" for remark in found.remarks)
    return f"### {found.setup.title}\n\n" + "".join(f"| {' | '.join(row)} |\n" for row in rows) + remarks


def show(found: Comparison) -> None:
    """Print the table."""
    from rich.console import Console

    console = Console() if sys.stdout.isatty() else Console(width=WIDTH)
    console.print(table(found))


@dataclass(frozen=True)
class Circumstances:
    """Circumstances of a measurement. machine: `machine.describe()` before the run; peers: versions by name."""

    machine: dict[str, object]
    peers: dict[str, str]

    def __str__(self) -> str:
        cores, cpu, kernel, load = (self.machine[key] for key in ("cores", "cpu", "kernel", "load"))
        peers = "; ".join(f"{name} {version}" for name, version in self.peers.items()) or "no peers"
        return f"{cores} cores of {cpu}, Linux {kernel}, load {load} before the run; {peers}."


def as_dict(found: Sequence[Comparison], circumstances: Circumstances) -> dict[str, object]:
    """The comparisons for `--json`."""
    return asdict(circumstances) | {"comparisons": [each.as_dict() for each in found]}


def save(found: Sequence[Comparison], circumstances: Circumstances, folder: Path) -> None:
    """Write `results.md` and `results.json` into a folder."""
    text = "\n".join(f"{markdown(each)}\n![{each.setup.title}]({each.setup.name}.png)\n" for each in found)
    head = f"# Allreduce f32 SUM\n\n{explanation(found)}\n\n{circumstances}\n\n"
    (folder / "results.md").write_text(head + text)
    (folder / "results.json").write_text(json.dumps(as_dict(found, circumstances), indent=1) + "\n")

"""A comparison as a table: for a terminal and for the documentation."""

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
    ratio = [RATIO] if any(map(_has_peers, found)) else []
    return "; ".join([TIMES, *ratio, *([OF_BOUND] if any(map(_has_bound, found)) else [])]) + "."


def columns(found: Comparison) -> list[str]:
    """The headings, without the ratios."""
    names = [f"{name} (not all offloaded)" if found.shortfalls.get(name) else name for name, _ in found.contenders]
    return ["bytes", *names, "bandwidth", *(["of bound"] if _has_bound(found) else [])]


def lines(found: Comparison) -> list[list[str]]:
    """The cells of these columns, a row for each size."""
    return [_line(found, size) for size in found.sizes]


def _line(found: Comparison, size: int) -> list[str]:
    rows = [found.row(name, size) for name, _ in found.contenders]
    best = min((row for row in rows if row.ours), key=lambda row: row.microseconds.median)
    cells = [render_size(size), *map(_time, rows), f"{render_size(best.bandwidth)}/s"]
    if best.bound_us is not None:
        cells.append(f"{best.bound_us / best.microseconds.median:.1%}")
    return cells


def ratios(found: Comparison, size: int) -> list[str]:
    """Of each contender of ours at a size; none without peers."""
    values = [found.ratio(name, size) for name, ours in found.contenders if ours]
    return [f"{value:.2f}" for value in values if value is not None]


def _time(row: Row) -> str:
    return f"{render_time(row.microseconds.median * 1e-6)} ±{row.microseconds.spread / 2:.0%}"


def _has_peers(found: Comparison) -> bool:
    return not all(ours for _, ours in found.contenders)


def _has_bound(found: Comparison) -> bool:
    return found.rows[0].bound_us is not None


def tables(found: Comparison) -> list[Any]:
    """For a terminal: times; ratios in a table of their own, since both would need a wide one."""
    caption = " ".join([explanation([found]), *(f"{remark}." for remark in found.remarks)])
    title = f"allreduce f32 SUM, {found.setup.title}"
    if not _has_peers(found):
        return [_table(title, columns(found), lines(found), caption)]
    heading = ["bytes", *(name for name, ours in found.contenders if ours)]
    rows = [[render_size(size), *ratios(found, size)] for size in found.sizes]
    return [_table(title, columns(found), lines(found)), _table("ratio", heading, rows, caption)]


def _table(title: str, heading: list[str], rows: list[list[str]], caption: str | None = None) -> Any:
    from rich import box
    from rich.table import Table

    shown = Table(title=title, title_justify="left", caption=caption, caption_justify="left", box=box.SIMPLE, padding=0)
    for name in heading:
        shown.add_column(name, justify="right")
    for row in rows:
        shown.add_row(*row)
    return shown


def markdown(found: Comparison) -> str:
    heading, rows = columns(found), lines(found)
    if _has_peers(found):
        heading = [*heading, "ratio"]
        rows = [[*row, " / ".join(ratios(found, size))] for row, size in zip(rows, found.sizes, strict=True)]
    rows = [heading, ["---"] * len(heading), *rows]
    remarks = "".join(f"\n{remark}.\n" for remark in found.remarks)
    return f"### {found.setup.title}\n\n" + "".join(f"| {' | '.join(row)} |\n" for row in rows) + remarks


def show(found: Comparison) -> None:
    from rich.console import Console

    console = Console() if sys.stdout.isatty() else Console(width=WIDTH)
    console.print(*tables(found))


@dataclass(frozen=True)
class Circumstances:
    """machine: `machine.describe()` before the run; peers: versions by name."""

    machine: dict[str, object]
    peers: dict[str, str]

    def __str__(self) -> str:
        cores, cpu, kernel, load = (self.machine[key] for key in ("cores", "cpu", "kernel", "load"))
        peers = "; ".join(f"{name} {version}" for name, version in self.peers.items()) or "no peers"
        return f"{cores} cores of {cpu}, Linux {kernel}, load {load} before the run; {peers}."


def as_dict(found: Sequence[Comparison], circumstances: Circumstances) -> dict[str, object]:
    return asdict(circumstances) | {"comparisons": [each.as_dict() for each in found]}


def save(found: Sequence[Comparison], circumstances: Circumstances, folder: Path) -> None:
    """Write `results.md` and `results.json`."""
    text = "\n".join(f"{markdown(each)}\n![{each.setup.title}]({each.setup.name}.png)\n" for each in found)
    head = f"# Allreduce f32 SUM\n\n{explanation(found)}\n\n{circumstances}\n\n"
    (folder / "results.md").write_text(head + text)
    (folder / "results.json").write_text(json.dumps(as_dict(found, circumstances), indent=1) + "\n")

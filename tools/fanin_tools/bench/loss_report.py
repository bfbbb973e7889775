"""Goodput against loss as a table, for a terminal and in Markdown, and as a plot."""

from pathlib import Path
from typing import Any

from fanin_tools.bench.loss import PER_MILLE, ROUTES, Row
from fanin_tools.quantities import render_size, render_time

COLUMNS = ("route", "loss", "median", "slowest", "goodput", "of lossless", "lost", "PROBEs", "sent again")
NOTE = "Time, goodput and packets of one message; made by `fanin bench loss --plot`."
INCHES, DOTS_PER_INCH = (7.0, 4.0), 120


def cells(row: Row) -> tuple[str, ...]:
    return (
        row.route,
        f"{row.per_mille / 10:g} %",
        render_time(row.median_ms * 1e-3),
        render_time(row.slowest_ms * 1e-3),
        f"{render_size(row.goodput)}/s",
        f"{row.share:.0%}",
        f"{row.lost:.0f}",
        f"{row.probes:.0f}",
        f"{row.resent:.0f}",
    )


def table(rows: list[Row], size: int) -> Any:
    from rich.table import Table

    shown = Table(title=f"allreduce of {render_size(size)}, 4 nodes, packets lost at random", title_justify="left")
    for column in COLUMNS:
        shown.add_column(column, justify="left" if column == "route" else "right")
    for row in rows:
        shown.add_row(*cells(row))
    return shown


def markdown(rows: list[Row], size: int) -> str:
    lines = [COLUMNS, ("---",) * len(COLUMNS), *map(cells, rows)]
    heading = f"# Goodput against loss\n\nAllreduce of {render_size(size)} over 4 nodes. {NOTE}\n\n"
    return heading + "".join(f"| {' | '.join(line)} |\n" for line in lines)


def save(rows: list[Row], size: int, picture: Path) -> None:
    """Save the plot, and the table beside it (suffix `.md`)."""
    plot(rows, size, picture)
    picture.with_suffix(".md").write_text(markdown(rows, size))


def plot(rows: list[Row], size: int, path: Path) -> None:
    """Goodput against the share of lost packets, a line for each route."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=INCHES, dpi=DOTS_PER_INCH, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for route in ROUTES:
        axes.plot(range(len(PER_MILLE)), [row.goodput / 1e6 for row in rows if row.route == route], "o-", label=route)
    axes.set_xticks(range(len(PER_MILLE)), [f"{rate / 10:g} %" for rate in PER_MILLE])
    axes.set(xlabel="packets lost", ylabel="goodput, MB/s", title=f"Allreduce of {render_size(size)} over 4 nodes")
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path)

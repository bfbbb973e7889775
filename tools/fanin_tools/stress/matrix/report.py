"""The matrix as a table: how many cases of each collective on each shape of network, and how many went wrong."""

from __future__ import annotations

from rich.table import Table

from fanin_tools.stress.matrix.run import Result
from fanin_tools.stress.matrix.topologies import TOPOLOGIES

SHOWN_FAILURES = 20


def table(result: Result) -> Table:
    """Collectives down, shapes across."""
    shapes = [shape.name for shape in TOPOLOGIES if any(place[1] == shape.name for place in result.tried)]
    collectives = list(dict.fromkeys(place[0] for place in result.tried))
    shown = Table(title=f"{result.cases} cases, {len(result.failures)} wrong", title_justify="left")
    for column in ("collective", *shapes):
        shown.add_column(column, justify="left" if column == "collective" else "right")
    for collective in collectives:
        shown.add_row(collective, *(_cell(result, collective, shape) for shape in shapes))
    return shown


def _cell(result: Result, collective: str, shape: str) -> str:
    count, failed = result.tried.get((collective, shape), 0), result.failed(collective, shape)
    return f"[bold red]{failed} of {count} wrong[/]" if failed else str(count)


def failures(result: Result) -> list[str]:
    """The first failures, a line each."""
    lines = [str(failure) for failure in result.failures[:SHOWN_FAILURES]]
    more = len(result.failures) - len(lines)
    return [*lines, f"... and {more} more"] if more else lines

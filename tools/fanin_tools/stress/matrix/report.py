"""The matrix as a table: the number of cases of each collective on each topology, and how many failed."""

from rich.table import Table

from fanin_tools.stress.matrix.run import Result
from fanin_tools.stress.matrix.topologies import TOPOLOGIES

SHOWN_FAILURES = 20


def table(result: Result) -> Table:
    """A row for each collective, a column for each topology."""
    topologies = [
        topology.name for topology in TOPOLOGIES if any(place[1] == topology.name for place in result.executed)
    ]
    collectives = list(dict.fromkeys(place[0] for place in result.executed))
    shown = Table(title=f"{result.calls} cases, {len(result.failures)} wrong", title_justify="left")
    for column in ("collective", *topologies):
        shown.add_column(column, justify="left" if column == "collective" else "right")
    for collective in collectives:
        shown.add_row(collective, *(_cell(result, collective, topology) for topology in topologies))
    return shown


def _cell(result: Result, collective: str, topology: str) -> str:
    count, failed = result.executed.get((collective, topology), 0), result.failed(collective, topology)
    return f"[bold red]{failed} of {count} wrong[/]" if failed else str(count)


def failures(result: Result) -> list[str]:
    """The first ones, one line each."""
    lines = [str(failure) for failure in result.failures[:SHOWN_FAILURES]]
    more = len(result.failures) - len(lines)
    return [*lines, f"... and {more} more"] if more else lines

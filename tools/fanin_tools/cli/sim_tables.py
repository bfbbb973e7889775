"""The report of a simulated collective as three tables."""

from rich.table import Table

from fanin_sim.scenario.report import ByteRange, LevelTraffic, Report
from fanin_sim.scenario.scenario import Scenario
from fanin_tools.quantities import render_size, render_time

SHOWN_SAMPLES = 12
NANOSECOND = 1e-9


def summary(scenario: Scenario, report: Report) -> Table:
    table = Table(title=f"{scenario.collective} on {scenario.nodes} nodes", title_justify="left", show_header=False)
    table.add_column()
    table.add_column(justify="right")
    table.add_row("message", render_size(scenario.size))
    table.add_row("NICs and switches", f"{scenario.nodes} and {report.switches}")
    for number, finished in enumerate(report.finished, 1):
        table.add_row(f"virtual time of job {number}", render_time(finished * NANOSECOND))
    if scenario.jobs > 1:
        table.add_row("share of the payload until one ended", ", ".join(f"{share:.1%}" for share in report.shares))
    table.add_row("packets", str(report.packets))
    table.add_row("PROBEs, sent again", f"{report.probes}, {report.resent}")
    table.add_row("wall time", render_time(report.wall_s))
    return table


def links(report: Report) -> Table:
    """A row for each level and direction, from the top down."""
    table = Table(title="bytes on a link: least, median, most", title_justify="left")
    for column in ("level", "direction", "links", "packets", "payload", "on the wire"):
        table.add_column(column, justify="left" if column == "direction" else "right")
    for line in report.links:
        table.add_row(*_cells(line))
    return table


def _cells(line: LevelTraffic) -> list[str]:
    level = str(line.level) if line.level else "-"
    return [
        level,
        line.direction,
        str(line.links),
        str(line.packets),
        _byte_range(line.payload),
        _byte_range(line.wire),
    ]


def _byte_range(spread: ByteRange) -> str:
    shown = list(map(render_size, spread))
    return ", ".join(shown if len(set(shown)) > 1 else shown[:1])


def occupancy(report: Report) -> Table:
    """Seg buffers in use, in some samples of time."""
    table = Table(title="seg buffers in use: mean, most of a device", title_justify="left")
    table.add_column("time", justify="right")
    for group in report.groups:
        table.add_column(group, justify="right")
    step = -(-len(report.occupancy) // SHOWN_SAMPLES)
    for sample in report.occupancy[::step]:
        cells = [f"{use.mean:.1f}, {use.most}" for use in sample.use]
        table.add_row(render_time(sample.time * NANOSECOND), *cells)
    return table

"""`fanin sim --rdma`: schedules of ordinary RDMA traffic, and one of them event by event."""

from __future__ import annotations

import typer
from rich.console import Console
from rich.table import Table

from fanin_sim.rdma import RdmaTally, replay, run
from fanin_sim.rdma.schedule import describe
from fanin_sim.rdma.trace_format import heading
from fanin_tools.cli.fuzz import faults, print_finding
from fanin_tools.cli.output import print_json
from fanin_tools.errors import ToolError
from fanin_tools.progress import print_progress

REMEDY = "report this defect: the seed gives the same schedule again (fanin sim --rdma --seed {seed} --trace)"
ROWS = {
    "schedules": "schedules",
    "connections_made": "connections",
    "deliveries": "packets delivered",
    "succeeded": "requests that have succeeded",
    "failed": "requests ended with an expected error",
    "received_messages": "messages received",
    "completions": "completions, checked",
}


def run_rdma(seconds: float, seed: int, processes: int, *, as_json: bool) -> None:
    """Runs schedules for a time and prints the tally.

    Raises:
        ToolError: something was violated.
    """
    print_progress(f"running schedules from seed {seed} on, for {seconds:g} s in {processes} processes ...")
    tally = run(seconds, seed, processes)
    if as_json:  # the findings are in it
        print_json(tally.as_dict())
        raise typer.Exit(1 if tally.findings else 0)
    Console().print(summary(tally), faults(tally))
    for finding in tally.findings:
        print_finding(finding)
    if tally.findings:
        first = tally.findings[0]
        raise ToolError("SIMULATION_FAILED", first.description, REMEDY.format(seed=first.seed))


def run_rdma_trace(seed: int) -> None:
    """Runs one seed, and prints every event.

    Raises:
        ToolError: something was violated.
    """
    plan, outcome, lines = replay(seed)
    print(heading(plan))
    for line in lines:
        print(line)
    if outcome.violation:
        raise ToolError("SIMULATION_FAILED", describe(outcome), REMEDY.format(seed=seed))


def summary(tally: RdmaTally) -> Table:
    """The counts as a table."""
    table = Table(title="ordinary RDMA traffic", title_justify="left", show_header=False)
    table.add_column()
    table.add_column(justify="right")
    for name, title in ROWS.items():
        table.add_row(title, str(tally.counts[name]))
    for profile, count in sorted(tally.profiles.items()):
        table.add_row(f"profile {profile}", str(count))
    for name, count in tally.by_category().items():
        table.add_row(name.replace("_", " "), str(count))
    return table

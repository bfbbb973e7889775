"""`fanin sim --fuzz` and `fanin sim --trace`: the schedule fuzzer, and one schedule event by event."""

from __future__ import annotations

import typer
from rich.console import Console
from rich.table import Table

from fanin_sim.findings import Finding, Tally
from fanin_sim.fuzz import FuzzTally, replay, run
from fanin_sim.fuzz.schedule import describe
from fanin_sim.fuzz.trace_format import TraceFormatter
from fanin_tools.cli.output import print_json
from fanin_tools.errors import ToolError
from fanin_tools.progress import print_progress

PERCENT = 100
REMEDY = "report this defect: the seed gives the same schedule again (fanin sim --seed {seed} --trace)"
ROWS = {
    "deliveries": "packets delivered",
    "packets_lost": "packets lost",
    "requests": "requests",
    "failed_requests": "requests ended with an expected error",
    "peer_lost_reports": "PEER_LOST reports, checked",
    "slot_shortages": "jobs refused for lack of slots",
}
NAMES = {
    "wraps": "uses of a slot",
    "duration_ms": "virtual time, ms",
    "slowest_ms": "last fault to last end of a request, ms",
}


def run_fuzzer(seconds: float, seed: int, processes: int, *, as_json: bool) -> None:
    """Runs schedules for a time and prints the tally.

    Raises:
        ToolError: an invariant was violated.
    """
    print_progress(f"running schedules from seed {seed} on, for {seconds:g} s in {processes} processes ...")
    tally = run(seconds, seed, processes)
    if as_json:  # the findings are in it
        print_json(tally.as_dict())
        raise typer.Exit(1 if tally.findings else 0)
    Console().print(summary(tally), faults(tally), distributions(tally))
    for finding in tally.findings:
        print_finding(finding)
    if tally.findings:
        first = tally.findings[0]
        raise ToolError("SIMULATION_FAILED", first.description, REMEDY.format(seed=first.seed))


def run_trace(seed: int) -> None:
    """Runs one seed, and prints every event.

    Raises:
        ToolError: an invariant was violated.
    """
    plan, outcome, lines = replay(seed)
    print(TraceFormatter(plan).heading())
    for line in lines:
        print(line)
    if outcome.violation:
        raise ToolError("SIMULATION_FAILED", describe(outcome), REMEDY.format(seed=seed))


def summary(tally: FuzzTally) -> Table:
    """The counts as a table."""
    table = Table(title="schedules", title_justify="left", show_header=False)
    table.add_column()
    table.add_column(justify="right")
    minutes = max(tally.seconds, 1e-9) / 60
    full = tally.counts["full"]
    table.add_row("schedules", str(tally.counts["schedules"]))
    table.add_row("full schedules (docs/simulator.md)", f"{full}, {full / minutes:.0f} a minute")
    for name, title in ROWS.items():
        table.add_row(title, str(tally.counts[name]))
    for profile, count in sorted(tally.profiles.items()):
        table.add_row(f"profile {profile}", str(count))
    for name, count in tally.by_category().items():
        table.add_row(name.replace("_", " "), str(count))
    return table


def faults(tally: Tally) -> Table:
    """The number of faults by kind."""
    table = Table(title="faults", title_justify="left")
    table.add_column("kind")
    table.add_column("number", justify="right")
    for kind, count in sorted(tally.faults.items()):
        table.add_row(kind.replace("_", " ").lower(), str(count))
    return table


def distributions(tally: FuzzTally) -> Table:
    """The distributions over schedules."""
    table = Table(title="per schedule (rounded down to half a power of two)", title_justify="left")
    for column in ("", "min", "10 %", "median", "90 %", "max"):
        table.add_column(column, justify="right" if column else "left")
    for name, distribution in tally.distributions.items():
        cells = [str(distribution.quantile(share / PERCENT)) for share in (0, 10, 50, 90, 100)]
        table.add_row(NAMES.get(name, name), *cells)
    return table


def print_finding(finding: Finding) -> None:
    """Prints the shrunk schedule of a finding: its faults and its last events."""
    print(f"\n{finding.description}")
    for line in finding.details:
        print(f"  {line}")

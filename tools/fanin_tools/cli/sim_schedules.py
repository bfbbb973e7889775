"""`fanin sim --storm` and `fanin sim --trace`: many schedules with faults, or one of them event by event."""

from __future__ import annotations

import typer
from rich.console import Console
from rich.table import Table

from fanin_nic.sim.storm import Failure, Tally, replay, run
from fanin_nic.sim.storm.schedule import describe
from fanin_nic.sim.storm.story import Story
from fanin_tools.cli.output import print_json, print_progress
from fanin_tools.errors import ToolError

PERCENT = 100
REMEDY = "report this defect: the seed gives the same schedule again (fanin sim --seed {seed} --trace)"


def storm(seconds: float, seed: int, processes: int, *, as_json: bool) -> None:
    """Run schedules for some seconds. Raises ToolError after a violation."""
    print_progress(f"playing schedules from seed {seed} on, for {seconds:g} s in {processes} processes ...")
    tally = run(seconds, seed, processes)
    if as_json:  # the failures are in it
        print_json(tally.as_dict())
        raise typer.Exit(1 if tally.failures else 0)
    Console().print(summary(tally), faults(tally), distribution(tally))
    for failure in tally.failures:
        tell(failure)
    if tally.failures:
        first = tally.failures[0]
        raise ToolError("SIMULATION_FAILED", first.heading, REMEDY.format(seed=first.seed))


def trace(seed: int) -> None:
    """Run the schedule of one seed and print every event. Raises ToolError after a violation."""
    plan, outcome, lines = replay(seed)
    print(Story(plan).heading())
    for line in lines:
        print(line)
    if outcome.violation:
        raise ToolError("SIMULATION_FAILED", describe(outcome), REMEDY.format(seed=seed))


def summary(tally: Tally) -> Table:
    """The counts over all schedules."""
    table = Table(title="schedules", title_justify="left", show_header=False)
    table.add_column()
    table.add_column(justify="right")
    minutes = max(tally.wall_s, 1e-9) / 60
    table.add_row("schedules", f"{tally.schedules}")
    table.add_row("of them full (docs/simulator.md)", f"{tally.full}, {tally.full / minutes:.0f} a minute")
    table.add_row("packets delivered", str(tally.deliveries))
    table.add_row("packets lost", str(tally.packets_lost))
    table.add_row("requests", str(tally.requests))
    table.add_row("that ended with an error, as they must", str(tally.failed_requests))
    table.add_row("that named a lost member correctly", str(tally.accusations))
    table.add_row("jobs refused for want of slots", str(tally.shortages))
    for mood, count in sorted(tally.moods.items()):
        table.add_row(f"mood {mood}", str(count))
    table.add_row("wrong results", str(tally.wrong_results))
    table.add_row("hangs", str(tally.hangs))
    table.add_row("schedules that broke anything", str(len(tally.failures)))
    return table


def faults(tally: Tally) -> Table:
    """The number of faults of each kind."""
    table = Table(title="faults", title_justify="left")
    table.add_column("kind")
    table.add_column("number", justify="right")
    for kind, count in sorted(tally.faults.items()):
        table.add_row(kind.replace("_", " ").lower(), str(count))
    return table


def distribution(tally: Tally) -> Table:
    """The distribution of the properties of a schedule."""
    table = Table(title="of a schedule (rounded down to half a power of two)", title_justify="left")
    for column in ("", "least", "one in ten below", "middle", "one in ten above", "greatest"):
        table.add_column(column, justify="right" if column else "left")
    for name, spread in tally.spreads.items():
        cells = [str(spread.quantile(share / PERCENT)) for share in (0, 10, 50, 90, 100)]
        table.add_row(NAMES.get(name, name), *cells)
    return table


NAMES = {
    "wraps": "uses of a slot",
    "duration_ms": "virtual time, ms",
    "slowest_ms": "from the last fault to the last end of a request, ms",
}


def tell(failure: Failure) -> None:
    """Print a failure: the shortest schedule, and the end of its trace."""
    print(f"\n{failure.heading}")
    for fault in failure.faults:
        print(f"  {fault}")
    print("  the last events:")
    for line in failure.tail:
        print(f"  {line}")

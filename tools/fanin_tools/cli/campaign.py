"""The schedule fuzzers on the command line: a campaign as tables, and one schedule event by event."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import typer
from rich.console import Console
from rich.table import Table

from fanin_sim.campaign import Replay
from fanin_sim.findings import Finding, Tally
from fanin_tools.cli.output import print_json
from fanin_tools.errors import ToolError
from fanin_tools.progress import print_progress

AnyTally = TypeVar("AnyTally", bound=Tally)


def run_campaign(
    run: Callable[[float, int, int], AnyTally],
    tables: Callable[[AnyTally], list[Table]],
    seconds: float,
    seed: int,
    processes: int,
    *,
    as_json: bool,
) -> None:
    """Runs schedules for a time, and prints the tally.

    Args:
        run: the campaign, of seconds, first seed and processes.
        tables: the tables of its tally.
        seconds, seed, processes: as in `fanin_sim.campaign.run_campaign`.
        as_json: print the tally as JSON.

    Raises:
        ToolError: SIMULATION_FAILED, if anything was violated.
    """
    print_progress(f"running schedules from seed {seed} on, for {seconds:g} s in {processes} processes ...")
    tally = run(seconds, seed, processes)
    if as_json:  # the findings are in it
        print_json(tally.as_dict())
        raise typer.Exit(1 if tally.findings else 0)
    Console().print(*tables(tally))
    for finding in tally.findings:
        print_finding(finding)
    if tally.findings:
        first = tally.findings[0]
        raise _defect(first.description, first.replay)


def print_replay(replayed: Replay, command: str) -> None:
    """Prints every event of a schedule, which `command` shows.

    Raises:
        ToolError: SIMULATION_FAILED, if anything was violated.
    """
    print(replayed.heading)
    for line in replayed.lines:
        print(line)
    if replayed.violation:
        raise _defect(replayed.violation, command)


def _defect(description: str, command: str) -> ToolError:
    remedy = f"report this defect: the seed gives the same schedule again ({command})"
    return ToolError("SIMULATION_FAILED", description, remedy)


def counts(title: str, rows: dict[str, str], tally: Tally, profiles: dict[str, int]) -> Table:
    """Counts of a tally as a table. rows: title of each count that is shown, by its name; profiles: schedules of each
    profile."""
    table = Table(title=title, title_justify="left", show_header=False)
    table.add_column()
    table.add_column(justify="right")
    for name, words in rows.items():
        table.add_row(words, str(tally.counts[name]))
    for profile, count in sorted(profiles.items()):
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


def print_finding(finding: Finding) -> None:
    """Prints the schedule of a finding: its faults and its last events."""
    print(f"\n{finding.description}")
    for line in finding.details:
        print(f"  {line}")

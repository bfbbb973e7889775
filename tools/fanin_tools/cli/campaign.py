"""The schedule fuzzers: a campaign as tables, and one schedule event by event."""

import contextlib
import math
from collections.abc import Callable
from typing import TypeVar

import typer
from rich.console import Console
from rich.table import Table

from fanin_sim.campaign import Replay
from fanin_sim.findings import Finding, Tally
from fanin_tools.cli.options import LOADING
from fanin_tools.cli.output import print_json
from fanin_tools.errors import ToolError
from fanin_tools.progress import Activity, activity, print_progress, steady

AnyTally = TypeVar("AnyTally", bound=Tally)


def run_campaign(
    prepare: Callable[[], None],
    run: Callable[..., AnyTally],
    tables: Callable[[AnyTally], list[Table]],
    seconds: float,
    seed: int,
    processes: int,
    schedules: int | None,
    *,
    as_json: bool,
) -> None:
    """Run schedules for a time or a number of them, and print the tally.

    prepare: loads or compiles the code. run: the campaign; called with seconds, first seed, processes, `schedules` and
    `tell`. tables: of its tally. seconds, seed, processes, schedules: as in `fanin_sim.campaign.run_campaign`. Raises
    ToolError SIMULATION_FAILED if anything was violated.
    """
    number, time = f"{schedules} " if schedules else "", "" if math.isinf(seconds) else f", for {seconds:g} s"
    print_progress(f"running {number}schedules from seed {seed} on{time}, in {processes} processes ...")
    with steady(LOADING):
        prepare()
    with contextlib.ExitStack() as shown:
        tally = run(seconds, seed, processes, schedules=schedules, tell=_teller(shown, seconds))
    if as_json:  # it has the findings
        print_json(tally.as_dict())
        raise typer.Exit(1 if tally.findings else 0)
    Console().print(*tables(tally))
    for finding in tally.findings:
        print_finding(finding)
    if tally.findings:
        first = tally.findings[0]
        raise _defect(first.description, first.replay)


def _teller(shown: contextlib.ExitStack, seconds: float) -> Callable[[float], None]:
    """Shows how much of the time has passed. It starts its thread at the first call, after the processes have been
    forked: they would copy the thread's locks."""
    running: list[Activity] = []
    total = None if math.isinf(seconds) else round(seconds)  # the steps are seconds

    def tell(passed: float) -> None:
        if not running:
            running.append(shown.enter_context(activity("running schedules", print_progress, total)))
        running[0].update(round(min(passed, seconds)))

    return tell


def print_replay(prepare: Callable[[], None], replay: Callable[[int], Replay], seed: int, command: str) -> None:
    """Print every event of a seed's schedule, which `command` shows. Raises ToolError SIMULATION_FAILED."""
    with steady(LOADING):
        prepare()
        replayed = replay(seed)
    print(replayed.heading)
    for line in replayed.lines:
        print(line)
    if replayed.violation:
        raise _defect(replayed.violation, command)


def _defect(description: str, command: str) -> ToolError:
    remedy = f"report this defect: the seed gives the same schedule again ({command})"
    return ToolError("SIMULATION_FAILED", description, remedy)


def counts(title: str, rows: dict[str, str], tally: Tally, profiles: dict[str, int]) -> Table:
    """Counts of a tally. rows: title of each shown count, by name; profiles: schedules of each profile."""
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
    table = Table(title="faults", title_justify="left")
    table.add_column("kind")
    table.add_column("number", justify="right")
    for kind, count in sorted(tally.faults.items()):
        table.add_row(kind.replace("_", " ").lower(), str(count))
    return table


def print_finding(finding: Finding) -> None:
    """Print the schedule of a finding: its faults and its last events."""
    print(f"\n{finding.description}")
    for line in finding.details:
        print(f"  {line}")

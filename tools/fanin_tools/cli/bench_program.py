"""`fanin bench program`: whether the shim pays for an MPI program of the user."""

from __future__ import annotations

import os
import statistics
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fanin_tools.cli import options
from fanin_tools.cli.output import print_json, print_table, reporting
from fanin_tools.cli.run import fabric_of_run
from fanin_tools.errors import UsageError
from fanin_tools.progress import print_progress
from fanin_tools.quantities import counted, render_time
from fanin_wire.limits import DEFAULT_DETECTION

if TYPE_CHECKING:
    from fanin_tools.bench.mpi_shim import Calls
    from fanin_tools.bench.program import Outcome

ROUTE = "auto"  # as of fanin run --mpi
NO_REPORT = "no report of the shim: it stands before programs of one MPI, linked dynamically, that end by MPI_Finalize"


@reporting
def program(
    context: typer.Context,
    command: Annotated[list[str], typer.Argument(metavar="-- PROGRAM [ARGUMENTS]...", show_default=False)],
    ranks: Annotated[int, options.ranks(1)] = 4,
    turns: Annotated[int, options.count(min=1, help="Runs of each, plain and with Fanin.")] = 5,
    limit: Annotated[int, options.seconds(metavar="SECONDS", min=1, help="Time after which a run is ended.")] = 600,
    directory: Annotated[
        Path, typer.Option(help="Working directory of PROGRAM. Default: the current one.", show_default=False)
    ] = Path(),
    name: options.Name = "default",
    mpirun: Annotated[str, typer.Option(help="Launcher of the MPI, with its options.")] = "mpirun",
    json_output: options.Json = False,
) -> None:
    """Run an MPI program plain and with Fanin, in turns: both times, and whether the output is the same.

    Fanin has the settings of a user who sets none. Those in the environment count (FANIN_MPI_THRESHOLDS and others).
    """
    from fanin_tools.bench import program
    from fanin_tools.fabric.lease import leased
    from fanin_tools.launch import mpirun as mpi_launcher
    from fanin_tools.launch.placement import place

    program.check_environment()
    mpi_launcher.launcher_words(mpirun)
    _check_program(command[0], directory)
    is_named = "--name" in options.given(context)
    plan = fabric_of_run(name, is_named, ranks, ROUTE, DEFAULT_DETECTION, spread=False)
    with leased(plan, print_progress) as running:
        placement = place(running.fabric, ranks, ROUTE)
        commands = program.commands_of(running, placement, mpirun, command, directory, limit)
        found = program.measure(commands, turns, print_progress)
    for line in found.warnings:
        print_progress(f"fanin: {line}")
    if json_output:
        print_json({"program": command, "ranks": ranks, **_as_dict(found)})
    else:
        _show(found, f"{Path(command[0]).name}, {counted(ranks, 'rank')}, {counted(turns, 'turn')}")


def _check_program(name: str, directory: Path) -> None:
    from fanin_tools.launch.launcher import require_program

    if not directory.is_dir():
        raise UsageError(f"{directory} is not a directory", "name another with --directory")
    require_program(str(directory.absolute() / name) if os.sep in name else name)


def _as_dict(found: Outcome) -> dict[str, object]:
    return {
        "plain_s": found.plain,
        "with_fanin_s": found.with_fanin,
        "ratio": found.ratio,
        "faster_turns": found.faster_turns,
        "calls": found.calls,
        "warnings": found.warnings,
        "output": found.output,
        "plain_output": found.plain_output,
    }


def _show(found: Outcome, title: str) -> None:
    rows = [("plain", found.plain), ("with Fanin", found.with_fanin)]
    print_table(title, ("", "median", "least"), [(what, *_times(seconds)) for what, seconds in rows])
    won = f"faster with Fanin in {found.faster_turns} of {counted(len(found.plain), 'turn')}"
    typer.echo(f"ratio of medians, with Fanin to plain: {found.ratio:.3f}; {won}")
    typer.echo(_calls(found.calls))
    varies = f"; among plain runs: {found.plain_output}" if found.plain_output.lines else ""
    typer.echo(f"standard output: {found.output}{varies}")


def _times(seconds: Sequence[float]) -> tuple[str, str]:
    return render_time(statistics.median(seconds)), render_time(min(seconds))


def _calls(calls: list[Calls] | None) -> str:
    if calls is None:
        return NO_REPORT
    left: Counter[str] = Counter()
    for each in calls:
        left.update(each.left)
    reasons = ", ".join(f"{reason} {count}" for reason, count in left.most_common())
    offloaded = sum(each.offloaded for each in calls)
    shown = f" ({reasons})" if reasons else ""
    return f"calls of all ranks: {offloaded} offloaded, {left.total()} left to the MPI{shown}"

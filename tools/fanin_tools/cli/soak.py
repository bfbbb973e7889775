"""`fanin soak`."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Annotated

import typer

from fanin_tools.cli import options
from fanin_tools.cli.output import print_json, reporting
from fanin_tools.errors import UsageError

if TYPE_CHECKING:
    from fanin_tools.stress.tally import Tally

SEED_BITS = 31


@reporting
def soak(
    minutes: Annotated[float, typer.Option(min=0.01, help="How long; compiling and starting come before.")] = 10.0,
    seed: Annotated[int | None, typer.Option(help="All that is chosen follows from it; one that is drawn.")] = None,
    kinds: Annotated[str, typer.Option(help="Only these: simulation,fuzzing,faults.")] = "",
    again: Annotated[int | None, typer.Option("--replay", help="Only one round of real faults, of this seed.")] = None,
    json_output: options.Json = False,
) -> None:
    """Simulation, hostile input, real faults in turns: nothing may be wrong, hang or leak. Exit code 1 if it does."""
    from fanin_tools.stress.soak import run

    chosen = _chosen(kinds, tuple(run.SHARES))
    if again is not None:
        tally = run.replay(again)
    else:
        tally = _soak(minutes, secrets.randbits(SEED_BITS) if seed is None else seed, chosen)
    if json_output:
        print_json(tally.as_dict())
    else:
        _print(tally)
    raise typer.Exit(0 if tally.is_clean else 1)


def _chosen(text: str, known: tuple[str, ...]) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",")) if text else known
    for name in names:
        if name not in known:
            raise UsageError(f"{name!r} is no kind of round", f"use some of {', '.join(known)}")
    return names


def _soak(minutes: float, seed: int, kinds: tuple[str, ...]) -> Tally:
    """With a bar that moves between rounds: a thread that moved it would be copied into the simulator's processes."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    from fanin_tools.stress.soak import run

    columns = TextColumn(f"soak, seed {seed}"), BarColumn(), TextColumn("{task.percentage:3.0f} %, {task.description}")
    with Progress(*columns, console=Console(stderr=True), auto_refresh=False) as progress:
        task = progress.add_task("", total=1.0)

        def tell(what: str, share: float) -> None:
            progress.update(task, description=what, completed=share, refresh=True)

        return run.soak(60 * minutes, seed, kinds, tell)


def _print(tally: Tally) -> None:
    from rich.console import Console

    from fanin_tools.stress.soak import report

    Console().print(report.table(tally))
    for line in report.findings(tally):
        print(line)

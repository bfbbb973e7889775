"""`fanin soak`."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Annotated

import typer

from fanin_tools.cli import options
from fanin_tools.cli.output import print_json, reporting
from fanin_tools.errors import UsageError
from fanin_tools.progress import print_progress

if TYPE_CHECKING:
    from fanin_tools.stress.tally import Tally

SEED_BITS = 31


@reporting
def soak(
    minutes: Annotated[
        float, typer.Option(min=0.01, max=options.MAX_SECONDS / 60, help="Duration, without compiling and start-up.")
    ] = 10.0,
    seed: Annotated[
        int | None,
        typer.Option(
            min=0, max=options.MAX_SEED, help="Seed of all random choices. Default: a random seed, which is printed."
        ),
    ] = None,
    kinds: Annotated[str, typer.Option(help="Kinds of stress, of simulation,rdma,fuzzing,faults. Default: all.")] = "",
    replay: Annotated[
        int | None, typer.Option(min=0, max=options.MAX_SEED, help="Run only the round of real faults with this seed.")
    ] = None,
    json_output: options.Json = False,
) -> None:
    """Run simulation, hostile input and real faults in turns. Exit code 1 after a wrong result, a hang or a leak."""
    from fanin_tools.stress.soak import run

    selected = _parse_kinds(kinds, tuple(run.SHARES))
    if replay is not None:
        tally = run.replay(replay)
    else:
        tally = _soak(minutes, secrets.randbits(SEED_BITS) if seed is None else seed, selected)
    if json_output:
        print_json(tally.as_dict())
    else:
        _print(tally)
    raise typer.Exit(0 if tally.is_clean else 1)


def _parse_kinds(text: str, known: tuple[str, ...]) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",")) if text else known
    for name in names:
        if name not in known:
            raise UsageError(f"{name!r} is not a kind of stress", f"use some of {', '.join(known)}")
    return names


def _soak(minutes: float, seed: int, kinds: tuple[str, ...]) -> Tally:
    """A progress bar that moves between rounds only: the simulator forks, and would copy a thread's locks. Without a
    terminal, a line for each round."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    from fanin_tools.stress.soak import run

    columns = TextColumn(f"soak, seed {seed}"), BarColumn(), TextColumn("{task.percentage:3.0f} %, {task.description}")
    console = Console(stderr=True)
    with Progress(*columns, console=console, auto_refresh=False, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=1.0)

        def show(kind: str, share: float) -> None:
            if bar.disable:
                print_progress(f"soak, seed {seed}: {share:.0%}, {kind}")
            bar.update(task, description=kind, completed=share, refresh=True)

        return run.soak(60 * minutes, seed, kinds, show)


def _print(tally: Tally) -> None:
    from rich.console import Console

    from fanin_tools.stress.soak import run

    Console().print(run.table(tally))
    for line in run.findings(tally):
        print(line)

"""`fanin matrix`."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Annotated

import typer

from fanin_tools.cli import options
from fanin_tools.cli.output import print_json, reporting
from fanin_tools.errors import UsageError
from fanin_tools.progress import print_progress

if TYPE_CHECKING:
    from fanin_tools.stress.matrix.run import Result


@reporting
def matrix(
    sample: Annotated[bool, options.flag("--sample", help="Few cases, which cover every two values together.")] = False,
    seed: options.Seed = 1,
    topologies: Annotated[str, typer.Option(help="Only these, for example ring,mixed. Default: all.")] = "",
    collectives: Annotated[str, typer.Option(help="Only these, for example reduce,barrier. Default: all.")] = "",
    name: options.Name = "matrix",
    json_output: options.Json = False,
) -> None:
    """Run every collective x topology x operation x type x size x ranks on real devices, and verify with numpy."""
    from fanin_tools.fabric.lease import leased
    from fanin_tools.launch.collective_call import COLLECTIVES
    from fanin_tools.stress.matrix.combinations import select
    from fanin_tools.stress.matrix.run import run
    from fanin_tools.stress.matrix.topologies import TOPOLOGY_BY_NAME, MatrixPlan

    wanted = _named(topologies, TOPOLOGY_BY_NAME, "a topology"), _named(collectives, COLLECTIVES, "a collective")
    combinations = select(sample, seed, *wanted)
    print_progress(f"{len(combinations)} cases, seed {seed}")
    with leased(MatrixPlan(name), print_progress) as running:
        result = run(running, combinations, seed, print_progress)
    if json_output:
        print_json({"seed": seed, "sample": sample, **result.as_dict()})
    else:
        _print_table(result)
    raise typer.Exit(1 if result.failures else 0)


def _named(text: str, known: Collection[str], what: str) -> tuple[str, ...]:
    """Parse names with commas; "" is all known names."""
    names = tuple(name.strip() for name in text.split(",")) if text else tuple(known)
    for name in names:
        if name not in known:
            raise UsageError(f"{name!r} is not {what}", f"use some of {', '.join(known)}")
    return names


def _print_table(result: Result) -> None:
    from rich.console import Console

    from fanin_tools.stress.matrix import report

    Console().print(report.table(result))
    for line in report.failures(result):
        print(line)

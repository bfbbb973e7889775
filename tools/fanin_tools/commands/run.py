"""`fanin run -n N -- PROGRAM ARGUMENTS`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from fanin_tools import options
from fanin_tools.output import print_json, reporting, say

if TYPE_CHECKING:
    from fanin_tools.fabric.description import Fabric

DEFAULT_NODES = 4


@reporting
def run(
    command: Annotated[list[str], typer.Argument(metavar="-- PROGRAM [ARGUMENTS]...", show_default=False)],
    ranks: Annotated[int, typer.Option("-n", "--ranks", min=1, help="Number of ranks.")] = 1,
    name: options.Name = "default",
    route: options.Route = "auto",
    prefix: Annotated[bool, typer.Option("--prefix", help="Put the rank before every line of output.")] = False,
    json_output: options.Json = False,
) -> None:
    """Run PROGRAM once per rank on the local fabric; brings one up for the run if none is up."""
    from fanin_tools.fabric.borrow import borrowed
    from fanin_tools.job import launcher
    from fanin_tools.job.placement import place

    with borrowed(_fabric(name, ranks, route), say) as running:
        placement = place(running.fabric, ranks, route)
        code = launcher.launch(running, placement, command, prefix=prefix)
    if json_output:
        nodes = len(placement.nics)
        print_json({"exit_code": code, "ranks": ranks, "nodes": nodes, "route": placement.route})
    raise typer.Exit(code)


def _fabric(name: str, ranks: int, route: str) -> Fabric:
    """The fabric that is up, or one that just holds the ranks."""
    from fanin_tools.fabric import generate, lifecycle

    present = lifecycle.find(name)
    if present is not None:
        return present.fabric
    nodes = 1 if route == "local" else min(ranks, DEFAULT_NODES)
    return lifecycle.generated(name, generate.Shape(nodes, -(-ranks // nodes)))

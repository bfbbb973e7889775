"""`fanin demo`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from fanin_tools import options
from fanin_tools.output import print_json, reporting, say

if TYPE_CHECKING:
    from fanin_tools.demo.demo import Outcome


@reporting
def demo(
    nodes: options.Nodes = 4,
    ranks_per_node: options.RanksPerNode = 4,
    route: Annotated[str, typer.Option(help="tree, ring, local, or all that the fabric has.")] = "all",
    size: Annotated[str, typer.Option("--bytes", help="Message per rank, rounded up to whole elements.")] = "16M",
    dtype: Annotated[str, typer.Option(help="f32, f64, i32, i64.")] = "f32",
    op: Annotated[str, typer.Option(help="sum, min, max, mean.")] = "sum",
    slots: Annotated[int, typer.Option(min=2, help="Segment buffers that the job asks of each device.")] = 256,
    ordinary: Annotated[bool, typer.Option("--ordinary", help="Ordinary memory instead of registered.")] = False,
    direct: options.Direct = False,
    netns: options.Netns = False,
    rate: options.Rate = "",
    lanes: options.Lanes = 1,
    name: options.Name = "demo",
    json_output: options.Json = False,
) -> None:
    """Reduce over every route, verify every bit against numpy, and show what each link carried."""
    from fanin_tools.demo import demo as demonstration
    from fanin_tools.fabric import generate, lifecycle
    from fanin_tools.fabric.borrow import borrowed

    task = demonstration.Task(options.parse_size(size), dtype, op, slots, registered=not ordinary)
    demonstration.check_task(task)
    shape = generate.Shape(nodes, ranks_per_node, direct, netns, rate, lanes=lanes)
    with borrowed(lifecycle.generated(name, shape), say) as running:
        routes = demonstration.routes_of(running.fabric, route)
        outcomes = demonstration.run(running, routes, task, say)
    verified = all(outcome.verified for outcome in outcomes)
    if json_output:
        print_json({"verified": verified, "routes": [outcome.as_dict() for outcome in outcomes]})
    else:
        _print_tables(outcomes)
    raise typer.Exit(0 if verified else 1)


def _print_tables(outcomes: list[Outcome]) -> None:
    from rich.console import Console

    from fanin_tools.demo import report

    console = Console()
    console.print(report.results(outcomes))
    table = report.links(outcomes)
    if table.row_count:
        console.print(table)

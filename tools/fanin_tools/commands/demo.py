"""`fanin demo`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from fanin_tools import options
from fanin_tools.output import print_json, reporting, say
from fanin_tools.quantities import parse_size

if TYPE_CHECKING:
    from fanin_tools.demo.demo import Outcome


@reporting
def demo(
    nodes: options.Nodes = None,
    ranks_per_node: options.RanksPerNode = 4,
    fanout: options.Fanout = "",
    plain_leaves: options.PlainLeaves = False,
    route: Annotated[str, typer.Option(help="tree, ring, local, or all that the fabric has.")] = "all",
    size: Annotated[str, typer.Option("--bytes", help="Message per rank, rounded up to whole elements.")] = "16M",
    dtype: Annotated[str, typer.Option(help="f32, f64, i32, i64.")] = "f32",
    op: Annotated[str, typer.Option(help="sum, min, max, mean.")] = "sum",
    slots: Annotated[int, typer.Option(min=2, help="Segment buffers that the job asks of each device.")] = 256,
    reproducible: options.Reproducible = "none",
    wide: options.Wide = False,
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
    from fanin_tools.fabric.borrow import borrowed
    from fanin_tools.fabric.generate import Plan
    from fanin_tools.job.job_file import Terms

    terms = Terms(slots, reproducible, wide)
    terms.check()
    task = demonstration.Task(parse_size(size), dtype, op, terms, registered=not ordinary)
    demonstration.check_task(task)
    plan = Plan(
        name,
        options.shape(
            nodes,
            ranks_per_node,
            fanout=fanout,
            plain_leaves=plain_leaves,
            direct=direct,
            netns=netns,
            rate=rate,
            lanes=lanes,
        ),
    )
    routes = demonstration.routes_of(plan.preview(), route)
    with borrowed(plan, say) as running:
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

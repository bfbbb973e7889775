"""`fanin demo`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from fanin_tools.cli import options
from fanin_tools.cli.fabric import FabricOptions, with_fabric_options
from fanin_tools.cli.output import print_json, reporting
from fanin_tools.progress import print_progress
from fanin_tools.quantities import parse_size
from fanin_wire.limits import DEFAULT_JOB_SLOTS

if TYPE_CHECKING:
    from fanin_tools.demo.sections import DemoResult

DEFAULTS = FabricOptions(ranks_per_node=4)


@reporting
@with_fabric_options
def demo(
    fabric: FabricOptions = DEFAULTS,
    sections: Annotated[str, typer.Option(help="Sections to show, for example allreduce,query; or all.")] = "all",
    route: Annotated[str, typer.Option(help="tree, ring, local, or all routes of the fabric.")] = "all",
    size: Annotated[str, typer.Option("--bytes", help="Message of each rank in the section allreduce.")] = "16M",
    dtype: Annotated[str, typer.Option(help="Type of its elements: f32, i64, ...")] = "f32",
    op: Annotated[str, typer.Option(help="Its operation: sum, min, ...")] = "sum",
    slots: options.Slots = DEFAULT_JOB_SLOTS,
    reproducible: options.Reproducible = "none",
    wide: options.Wide = False,
    ordinary: Annotated[bool, options.flag("--ordinary", help="Ordinary memory instead of registered.")] = False,
    name: options.Name = "demo",
    json_output: options.Json = False,
) -> None:
    """Run every collective over every route, and verify every bit with numpy."""
    from fanin_tools.bench import compare
    from fanin_tools.demo import allreduce
    from fanin_tools.demo import sections as demonstration
    from fanin_tools.fabric.generate import Plan
    from fanin_tools.fabric.lease import leased

    settings = options.job_settings(slots, reproducible, wide)
    task = allreduce.Task(parse_size(size), dtype, op, settings, registered=not ordinary)
    allreduce.check_task(task)
    compare.sizes_that_fit([task.message_bytes], fabric.shape().nodes * fabric.shape().ranks_per_node, print_progress)
    plan, chosen = Plan(name, fabric.shape()), demonstration.parse_sections(sections)
    routes = allreduce.routes_of(plan.preview(), route)
    with leased(plan, print_progress) as running:
        shown = demonstration.run(running, chosen, routes, task, print_progress)
    if json_output:
        print_json(shown.as_dict())
    else:
        _print_tables(shown)
    raise typer.Exit(0 if shown.verified else 1)


def _print_tables(shown: DemoResult) -> None:
    from rich.console import Console

    from fanin_tools.demo import report

    console = Console(highlight=False)
    for table in report.tables(shown):
        console.print(table)
    console.print(report.last_line(shown))

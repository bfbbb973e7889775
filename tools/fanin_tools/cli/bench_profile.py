"""`fanin bench profile`: the time of the devices by stage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from fanin_tools.cli import options
from fanin_tools.cli.output import print_json, print_table, reporting
from fanin_tools.errors import UsageError
from fanin_tools.progress import print_progress
from fanin_tools.quantities import render_size, render_time

if TYPE_CHECKING:
    from fanin_tools.bench.profile import Row


@reporting
def profile(
    sizes: Annotated[str, typer.Option(help="Bytes of the message, as in 8,64M.")] = "8,64M",
    ranks: Annotated[
        int, typer.Option(min=2, max=options.MAX_CHILDREN, help="Ranks on one node, or nodes with --netns.")
    ] = 4,
    route: Annotated[str, typer.Option(help="With --netns: tree (the default) or ring.")] = "",
    netns: options.Netns = False,
    lanes: options.Lanes = None,
    ordinary: Annotated[bool, options.flag("--ordinary", help="Data in memory that is not registered.")] = False,
    name: options.Name = "profile",
    json_output: options.Json = False,
) -> None:
    """Time of the devices in an allreduce, stage by stage."""
    from fanin_tools.bench import profile
    from fanin_tools.bench.compare import sizes_that_fit
    from fanin_tools.bench.setups import Setup, Variant, parse_sizes
    from fanin_tools.fabric.generate import Plan
    from fanin_tools.fabric.lease import leased

    setup, variant = Setup(ranks, netns, lanes=lanes), Variant(_route(route, netns), not ordinary)
    lengths = sizes_that_fit(parse_sizes(sizes), ranks, print_progress)
    with leased(Plan(name, setup.shape), print_progress) as running:
        rows = profile.measure(running, setup, variant, lengths, print_progress)
    if json_output:
        print_json({"rows": rows})
        return
    for size, kind in dict.fromkeys((row.bytes, row.kind) for row in rows):
        _show_profile(rows, size, kind, f"{setup.title}, {variant.title}")


def _route(asked: str, netns: bool) -> str:
    if asked and not netns:
        raise UsageError(f"--route {asked} needs --netns", "add --netns, or leave out --route")
    if asked not in ("", "tree", "ring"):
        raise UsageError(f"--route {asked} can not be profiled", "use tree or ring")
    return (asked or "tree") if netns else "local"


def _show_profile(rows: Sequence[Row], size: int, kind: str, where: str) -> None:
    from fanin_tools.bench.profile import TITLES, WAITING, busy

    whole = busy(rows, size, kind)
    shown = [row for row in rows if (row.bytes, row.kind) == (size, kind) and row.laps]
    print_table(
        f"{where}: {render_size(size)}, each {kind}, for one operation",
        ("stage", "time", "of its work", "laps"),
        [
            (
                TITLES[row.stage],
                render_time(row.microseconds * 1e-6),
                "-" if row.stage in WAITING else f"{row.microseconds / whole:.1%}",
                f"{row.laps:.3g}",
            )
            for row in shown
        ],
    )

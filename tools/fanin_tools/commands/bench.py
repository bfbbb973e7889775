"""`fanin bench`, `fanin bench engine` and `fanin bench loss`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fanin_tools import options
from fanin_tools.errors import UsageError
from fanin_tools.output import print_json, reporting, say
from fanin_tools.quantities import parse_size, render_size, render_time

if TYPE_CHECKING:
    from fanin_tools.bench.measure import Row

app = typer.Typer(invoke_without_command=True)


@app.callback()
@reporting
def bench(
    context: typer.Context,
    largest: Annotated[str, typer.Option(help="Largest message.")] = "64M",
    peers: Annotated[Path, typer.Option(help="Folder of the peers' environments (make bench makes it).")] = Path(
        ".bench"
    ),
    lanes: options.Lanes = 1,
    name: options.Name = "bench",
    json_output: options.Json = False,
) -> None:
    """Median times of allreduce f32 over each route, beside Open MPI in the same run."""
    if context.invoked_subcommand is not None:
        _refuse_before_subcommand(options.given(context), context.invoked_subcommand)
        return
    from fanin_tools.bench import measure, peer, settings
    from fanin_tools.fabric.borrow import borrowed
    from fanin_tools.fabric.generate import Plan

    limit = parse_size(largest)
    binaries = peer.locate(peers)
    if binaries is None:
        say(f"no {peer.NAME} in {peers}: measuring ours alone (make bench installs it)")
    plan = Plan(name, options.shape(settings.RANKS, settings.RANKS, lanes=lanes))
    with borrowed(plan, say) as running:
        rows = measure.compare(running, [size for size in settings.SIZES if size <= limit], binaries, say)
    if json_output:
        print_json({"peer": peer.NAME if binaries else None, "rows": [row.as_dict() for row in rows]})
    else:
        _print_table(rows, peer.NAME)


def _refuse_before_subcommand(given: list[str], subcommand: str) -> None:
    if given:
        cause = f"{', '.join(given)} before {subcommand}, which does not see it"
        raise UsageError(cause, f"write options behind {subcommand}")


def _print_table(rows: list[Row], peer_name: str) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title="allreduce f32, median of the slowest rank", title_justify="left")
    for column in ("setting", "bytes", "fanin", peer_name, "ratio"):
        table.add_column(column, justify="left" if column == "setting" else "right")
    for row in rows:
        theirs = render_time(row.peer_us * 1e-6) if row.peer_us else "not measured"
        ratio = f"{row.peer_us / row.ours_us:.2f}" if row.peer_us else "-"
        ours = render_time(row.ours_us * 1e-6)
        table.add_row(row.setting, render_size(row.bytes), ours, theirs, ratio)
    Console().print(table)


@app.command()
@reporting
def loss(
    size: Annotated[str, typer.Option("--bytes", help="Length of the message.")] = "16M",
    rounds: Annotated[int, typer.Option(min=1, help="How often everything is measured, in turns.")] = 3,
    plot: Annotated[Path | None, typer.Option(help="Draw it as this picture, with the table beside it.")] = None,
    name: options.Name = "loss",
    json_output: options.Json = False,
) -> None:
    """Goodput of allreduce over tree and ring while packets are lost. Needs root and nftables."""
    from fanin_tools.bench import loss_report
    from fanin_tools.bench.loss import NODES, measure
    from fanin_tools.fabric.borrow import borrowed
    from fanin_tools.fabric.generate import Plan

    length, shape = parse_size(size), options.shape(NODES, 1, netns=True)
    if plot is not None:
        loss_report.require_plot()
    with borrowed(Plan(name, shape), say) as running:
        rows = measure(running, length, rounds, say)
    if plot is not None:
        loss_report.save(rows, length, plot)
    if json_output:
        print_json({"bytes": length, "rows": [row.as_dict() for row in rows]})
    else:
        from rich.console import Console

        Console().print(loss_report.table(rows, length))


@app.command("engine")
@reporting
def engine_rates(json_output: options.Json = False) -> None:
    """Segments per second that one core takes through the engine of a switch with four children."""
    from fanin_tools.bench import engine

    rows = engine.measure(say)
    if json_output:
        print_json({"rows": [row.as_dict() for row in rows]})
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(title="million segments per second and core", title_justify="left")
    for column in ("payload", "working set", "checked", "median", "best"):
        table.add_column(column, justify="left" if column == "checked" else "right")
    for row in rows:
        sizes = render_size(row.payload), render_size(row.working_set)
        table.add_row(*sizes, row.check, f"{row.segments_per_us:.1f}", f"{row.best_per_us:.1f}")
    Console().print(table)

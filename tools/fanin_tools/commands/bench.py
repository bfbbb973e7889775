"""`fanin bench`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fanin_tools import options
from fanin_tools.output import print_json, reporting, say
from fanin_tools.quantities import parse_size, render_size, render_time

if TYPE_CHECKING:
    from fanin_tools.bench.measure import Row


@reporting
def bench(
    largest: Annotated[str, typer.Option(help="Largest message.")] = "64M",
    peers: Annotated[Path, typer.Option(help="Folder of the peers' environments (make bench makes it).")] = Path(
        ".bench"
    ),
    lanes: options.Lanes = 1,
    name: options.Name = "bench",
    json_output: options.Json = False,
) -> None:
    """Median times of allreduce f32 over each route, beside Open MPI in the same run."""
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

"""`fanin fabric up|status|down`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from fanin_tools import options
from fanin_tools.output import print_json, reporting, say

app = typer.Typer(no_args_is_help=True, help="Devices and links on this machine.")


@app.command()
@reporting
def up(
    file: Annotated[Path | None, typer.Argument(help="TOML description; the options make one otherwise.")] = None,
    name: options.Name = "default",
    nodes: options.Nodes = 4,
    ranks_per_node: options.RanksPerNode = 2,
    direct: options.Direct = False,
    netns: options.Netns = False,
    rate: options.Rate = "",
    lanes: options.Lanes = 1,
    json_output: options.Json = False,
) -> None:
    """Start all devices and wait until each is ready. Does nothing if the same fabric is up."""
    from fanin_tools.fabric import description_file, generate, lifecycle

    shape = generate.Shape(nodes, ranks_per_node, direct, netns, rate, lanes=lanes)
    fabric = description_file.read(file) if file is not None else lifecycle.generated(name, shape)
    running = lifecycle.up(fabric, say)
    if json_output:
        print_json({"name": fabric.name, "started": running.fresh, "devices": len(fabric.devices)})
    else:
        state = "is up" if running.fresh else "was up already"
        print(f"fabric {fabric.name} {state}: {len(fabric.nics)} NICs, {'a' if fabric.switch else 'no'} switch")


@app.command()
@reporting
def status(
    name: Annotated[str | None, typer.Option("--name", help="Only this fabric; all otherwise.")] = None,
    json_output: options.Json = False,
) -> None:
    """Show what every device says of itself."""
    from fanin_tools.fabric import lifecycle, state

    fabrics = [lifecycle.status(each) for each in ([name] if name else state.names())]
    if json_output:
        print_json(fabrics)
    elif not fabrics:
        print("no fabric is up")
    else:
        _print_tables(fabrics)


def _print_tables(fabrics: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    for fabric in fabrics:
        table = Table(title=f"fabric {fabric['name']}", title_justify="left")
        for column in ("device", "address", "pid", "state", "slots leased", "jobs", "sent", "received"):
            table.add_column(column, justify="left" if column in ("device", "address", "state") else "right")
        for row in fabric["devices"]:
            table.add_row(row["name"], row["address"], str(row["pid"] or "-"), *_cells(row))
        Console().print(table)


def _cells(row: dict[str, Any]) -> list[str]:
    answer = row["answer"]
    if answer is None:
        return ["silent" if row["pid"] else "gone", "-", "-", "-", "-"]
    slots, links = answer["slots"], answer["links"].values()
    traffic = [sum(link[key] for link in links) for key in ("tx_bytes", "rx_bytes")]
    leased = f"{slots['leased']} of {slots['total']}"
    return ["ready", leased, str(len(answer["jobs"])), *map(options.render_size, traffic)]


@app.command()
@reporting
def down(name: options.Name = "default", json_output: options.Json = False) -> None:
    """End all devices and remove all that belongs to the fabric; also after a crash."""
    from fanin_tools.fabric import lifecycle

    present = lifecycle.down(name)
    if json_output:
        print_json({"name": name, "was_present": present})
    else:
        print(f"fabric {name} is down" if present else f"fabric {name} was not up")

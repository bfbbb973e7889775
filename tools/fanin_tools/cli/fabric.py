"""`fanin fabric up|status|restart|drain|down`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from fanin_tools.cli import fabric_hosts, options
from fanin_tools.cli.fabric_options import FabricOptions, with_fabric_options
from fanin_tools.cli.help import App
from fanin_tools.cli.output import print_json, report, reporting
from fanin_tools.errors import ToolError, UsageError
from fanin_tools.progress import print_progress, steady
from fanin_tools.quantities import render_size

app = App(no_args_is_help=True, help="Devices and links on this machine; `check` and `job`: on several hosts.")

DEFAULTS = FabricOptions()
STATUS_COLUMNS = (
    *("device", "address", "pid", "state", "leased", "jobs"),
    *("requests", "segments", "sent", "received"),  # requests of ranks, segments of messages: what the device has done
)
WIDE, WIDE_COLUMNS = 100, ("pid", "leased")  # columns of lines with so many characters
LEFT_COLUMNS = ("device", "address", "state")


@app.command()
@reporting
@with_fabric_options
def up(
    context: typer.Context,
    file: Annotated[Path | None, typer.Argument(help="TOML description. Default: made from the options.")] = None,
    name: options.Name = "default",
    fabric: FabricOptions = DEFAULTS,
    json_output: options.Json = False,
) -> None:
    """Start all devices and wait until each is ready. Does nothing if the same fabric is up."""
    from fanin_tools.fabric import description_file, lifecycle
    from fanin_tools.fabric.description import summary
    from fanin_tools.fabric.generate import Plan

    if file is not None:
        _refuse_beside_file(options.given(context, "file", "json_output"))
    wanted = Plan(name, fabric.shape()) if file is None else description_file.read(file)
    running = lifecycle.up(wanted, print_progress)
    found = running.fabric
    if json_output:
        print_json({"name": found.name, "started": running.fresh, "devices": len(found.devices)})
    else:
        print(f"fabric {found.name} {'is up' if running.fresh else 'was up already'}: {summary(found)}")


def _refuse_beside_file(given: list[str]) -> None:
    if given:
        cause = f"{', '.join(given)} can not be used with a description, which has all settings"
        raise UsageError(cause, "change the file, or leave the option out")


@app.command()
@reporting
def status(
    name: Annotated[str | None, typer.Option("--name", "--fabric", help="Only this fabric. Default: all.")] = None,
    json_output: options.Json = False,
) -> None:
    """Show the status of every device. Exit code 1: one of them does not run, or does not answer."""
    from fanin_tools.fabric import lifecycle, state

    fabrics = [lifecycle.status(each) for each in ([name] if name else state.names())]
    failures = [_lost_devices(fabric) for fabric in fabrics]
    if json_output:
        errors = [{"error": failure and failure.as_dict()} for failure in failures]
        print_json([fabric | error for fabric, error in zip(fabrics, errors, strict=True)])
    elif not fabrics:
        print("no fabric is up: fanin fabric up")
    else:
        _print_tables(fabrics)
    codes = [report(failure, as_json=False) for failure in failures if failure]
    raise typer.Exit(max(codes, default=0))


def _lost_devices(fabric: dict[str, Any]) -> ToolError | None:
    """If a device has not answered."""
    lost = {row["name"]: row["pid"] for row in fabric["devices"] if row["offload"] and row["answer"] is None}
    if not lost:
        return None
    name = fabric["name"]
    states = [f"{device} {'does not answer' if pid else 'does not run'}" for device, pid in lost.items()]
    restart = f"fanin fabric restart {next(iter(lost))} --name {name}"
    cause = f"of fabric {name} {', '.join(states)}"
    return ToolError("DEVICE_LOST", cause, f"{restart}, or end all its devices: fanin fabric down --name {name}")


def _print_tables(fabrics: list[dict[str, Any]]) -> None:
    """Each fabric as a tree. Tables fit into 80 columns: long names are folded, some columns are left out."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    console = Console()
    columns = [each for each in STATUS_COLUMNS if console.width >= WIDE or each not in WIDE_COLUMNS]
    for fabric in fabrics:
        title = f"fabric {fabric['name']}"
        table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=0)
        for column in columns:
            justify: Any = "left" if column in LEFT_COLUMNS else "right"
            table.add_column(column, justify=justify, overflow="fold", no_wrap=column != "device")
        for row in fabric["devices"]:
            cells = _cells(row)
            table.add_row(*(cells.get(column, "-") for column in columns))
        console.print(table)


def _cells(row: dict[str, Any]) -> dict[str, str]:
    """By column; a device that does not answer has few."""
    known = {
        "device": "  " * row["depth"] + row["name"],
        "address": row["address"] or "-",
        "pid": str(row["pid"] or "-"),
    }
    answer = row["answer"]
    if not row["offload"]:
        return known | {"state": "plain"}
    if answer is None:
        return known | {"state": "silent" if row["pid"] else "gone"}
    slots, links, counters = answer["slots"], answer["links"].values(), answer.get("counters", {})
    sent, received = (render_size(sum(link[key] for link in links)) for key in ("tx_bytes", "rx_bytes"))
    return known | {
        "state": "drains" if answer["draining"] else "ready",
        "leased": f"{slots['leased']}/{slots['total']}",
        "jobs": str(len(answer["jobs"])),
        "requests": str(counters.get("requests", 0)),
        "segments": str(counters.get("segments", 0)),
        "sent": sent,
        "received": received,
    }


@app.command()
@reporting
def restart(
    device: Annotated[str, typer.Argument(help="Name of a NIC or switch, as `fanin fabric status` shows it.")],
    name: options.Name = "default",
    json_output: options.Json = False,
) -> None:
    """End one device, if it still runs, and start it anew. Its jobs are lost; new jobs can use it."""
    from fanin_tools.fabric import lifecycle

    process = lifecycle.restart(name, device, print_progress).state.processes()[device]
    if json_output:
        print_json({"name": name, "device": device, "pid": process.pid})
    else:
        print(f"device {device} of fabric {name} is up again (pid {process.pid})")


@app.command()
@reporting
def drain(
    device: Annotated[str | None, typer.Argument(help="Name of a NIC or switch. Default: all, then `down`.")] = None,
    name: options.Name = "default",
    timeout: options.Timeout = None,
    json_output: options.Json = False,
) -> None:
    """Take no new job, wait until present ones have ended, and end the devices. `restart` brings a single one back."""
    from fanin_tools.fabric import drain

    devices = drain.drain(name, device, timeout)
    if json_output:
        print_json({"name": name, "devices": devices})
    elif device:
        print(f"device {device} of fabric {name} is drained, and has ended")
    else:
        print(f"fabric {name} is drained, and down")


@app.command()
@reporting
def down(name: options.Name = "default", json_output: options.Json = False) -> None:
    """End all devices and remove everything of the fabric, also after a crash."""
    from fanin_tools.fabric import lifecycle

    with steady(f"ending fabric {name}"):
        present = lifecycle.down(name)
    if json_output:
        print_json({"name": name, "was_present": present})
    else:
        print(f"fabric {name} is down" if present else f"fabric {name} was not up")


app.command()(fabric_hosts.check)
app.command()(fabric_hosts.job)

"""`fanin fabric up|status|restart|drain|down|check|job`, and the options that describe a fabric."""

from __future__ import annotations

import functools
import inspect
import math
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_type_hints

import typer

from fanin_tools.cli import options
from fanin_tools.cli.help import App
from fanin_tools.cli.output import print_json, print_table, report, reporting
from fanin_tools.errors import ToolError, UsageError
from fanin_tools.progress import print_progress, steady
from fanin_tools.quantities import render_size
from fanin_wire.limits import DEFAULT_DETECTION

if TYPE_CHECKING:
    from fanin_tools.fabric.generate import Shape
    from fanin_tools.hosts.check import Report
    from fanin_tools.hosts.description import Hosts

R = TypeVar("R")
DEFAULT_NODES = 4
STATUS_COLUMNS = (
    *("device", "address", "pid", "state", "leased", "jobs"),
    *("requests", "segments", "sent", "received"),  # requests of ranks, segments of messages: what the device has done
)
WIDE, WIDE_COLUMNS = 100, ("pid", "leased")  # columns of lines with so many characters
LEFT_COLUMNS = ("device", "address", "state")
SSH = "ssh -o BatchMode=yes {host}"
HOSTS_COLUMNS = ("host", "device", "address", "MTU", "version", "state")
HostsFile = Annotated[Path, typer.Argument(metavar="HOSTS", help="TOML file: the hosts, their NICs, the switches.")]
app = App(no_args_is_help=True, help="Devices and links on this machine; `check` and `job`: on several hosts.")


# The options that describe a fabric


@dataclass(frozen=True)
class FabricOptions:
    """As typer reads them, in the order of the help."""

    nodes: options.Nodes = None
    ranks_per_node: options.RanksPerNode = None
    fanout: options.Fanout = ""
    plain_leaves: options.PlainLeaves = False
    direct: options.Direct = False
    netns: options.Netns = False
    rate: options.Rate = ""
    lanes: options.Lanes = None
    detection: options.Detection = DEFAULT_DETECTION
    multicast: options.Multicast = True
    switch: options.Switch = "software"

    def shape(self) -> Shape:
        """Raises UsageError for a fanout that is not a product."""
        from fanin_tools.fabric.generate import Shape

        levels = _levels(self.fanout)
        nodes = self.nodes or (math.prod(levels) if levels else DEFAULT_NODES)
        ranks = self.ranks_per_node or Shape.ranks_per_node
        return Shape(**asdict(self) | {"nodes": nodes, "ranks_per_node": ranks, "fanout": levels})


def _levels(fanout: str) -> tuple[int, ...]:
    numbers = fanout.split("x") if fanout else []
    if not all(number.isdecimal() for number in numbers):
        raise UsageError(f"--fanout {fanout!r} is not a product", "write numbers with x between them, as in 2x2x2")
    return tuple(map(int, numbers))


def with_fabric_options(command: Callable[..., R]) -> Callable[..., R]:
    """Decorate a subcommand: typer sees the fields of its parameter `fabric`, a FabricOptions, as single options, with
    the parameter's default as their defaults."""
    signature = inspect.signature(command, eval_str=True)
    hints = get_type_hints(FabricOptions, include_extras=True)
    names = [field.name for field in fields(FabricOptions)]

    @functools.wraps(command)
    def wrapped(**given: Any) -> R:
        return command(fabric=FabricOptions(**{name: given.pop(name) for name in names}), **given)

    def option(name: str, default: FabricOptions) -> inspect.Parameter:
        kind = inspect.Parameter.KEYWORD_ONLY
        return inspect.Parameter(name, kind, default=getattr(default, name), annotation=hints[name])

    parameters = []
    for parameter in signature.parameters.values():
        if parameter.name == "fabric":
            parameters += [option(name, parameter.default) for name in names]
        else:
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
    wrapped.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    wrapped.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return wrapped


DEFAULTS = FabricOptions()


# A fabric on this machine


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


# The user's own hosts, named by a file


@app.command()
@reporting
def check(
    hosts: HostsFile,
    launch: Annotated[str, typer.Option(help="How to start a command on a host.")] = SSH,
    python: Annotated[
        str, typer.Option(metavar="PATH", help="Interpreter with Fanin there. Default: as here.", show_default=False)
    ] = sys.executable,
    json_output: options.Json = False,
) -> None:
    """Check devices on several hosts, the paths between them, and an allreduce. Exit code 1: something is wrong."""
    from fanin_tools.hosts import description
    from fanin_tools.hosts.check import Check
    from fanin_tools.hosts.session import Session

    described = description.read(hosts)
    with Session(described.names, launch, python) as session:
        found = Check(described, session, print_progress).run()
    names = ", ".join(dict.fromkeys(finding.host for finding in found.findings))
    failure = ToolError("HOSTS_DIFFER", f"wrong: {names}", "see each above; docs/several-hosts.md") if names else None
    if json_output:
        print_json(
            {
                "devices": found.devices,
                "findings": found.findings,
                "path": found.path,
                "error": failure and failure.as_dict(),
            }
        )
    else:
        _print_hosts(described, found)
    if failure:
        print_progress(f"fanin: {failure}")
        raise typer.Exit(failure.exit_code)


def _print_hosts(described: Hosts, found: Report) -> None:
    rows = []
    for device in described.devices():
        said = found.devices.get(device.address, {})
        state = "answers" if said else "does not answer"
        about = [str(said.get("mtu", "")), str(said.get("version", ""))]
        rows.append([device.host, device.kind, device.address, *about, state])
    print_table("devices", HOSTS_COLUMNS, rows)
    for finding in found.findings:
        print(finding)
    if found.path:
        print(f"allreduce over {len(described.hosts)} hosts: every bit is right; {found.path}")


@app.command()
@reporting
def job(
    hosts: HostsFile,
    ranks_per_host: Annotated[
        int, typer.Option(min=1, max=options.MAX_CHILDREN, help="Ranks on each host, in the order of the file.")
    ] = 1,
) -> None:
    """Print the description of a new job over hosts: the file that FANIN_JOB names, for one run of a program."""
    from fanin_tools.hosts import description

    print(description.read(hosts).job(ranks_per_host).to_text(), end="")

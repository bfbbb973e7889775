"""The command `fanin`. Each subcommand imports its modules when it runs, so that help and completion are quick."""

import os
import signal
import sys
from collections.abc import Callable
from importlib import metadata
from types import FrameType
from typing import Annotated, NoReturn

import typer

from fanin_tools.cli import bench, device, fabric, output, placement
from fanin_tools.cli.capture import capture
from fanin_tools.cli.conform import conform
from fanin_tools.cli.demo import demo
from fanin_tools.cli.dissector import dissector
from fanin_tools.cli.doctor import doctor
from fanin_tools.cli.handoff import handoff
from fanin_tools.cli.help import DEVICES, INSIGHT, PROGRAMS, SERVERS, TRIALS, App
from fanin_tools.cli.libraries import mpi_lib, nccl_lib, sharp_prefix, verbs_lib
from fanin_tools.cli.matrix import matrix
from fanin_tools.cli.run import run
from fanin_tools.cli.sim import sim
from fanin_tools.cli.soak import soak
from fanin_tools.cli.topology import topology
from fanin_tools.cli.trace import trace
from fanin_tools.cli.train_sim import train_sim
from fanin_tools.cli.tune import tune

app = App(no_args_is_help=True)
COMMANDS: dict[str, tuple[Callable[..., object], ...]] = {
    PROGRAMS: (demo, run, tune, mpi_lib, verbs_lib, nccl_lib, sharp_prefix),
    INSIGHT: (doctor, capture, trace, dissector),
    TRIALS: (conform, matrix, soak, sim, train_sim),
    SERVERS: (topology, handoff),
}
for panel, commands in COMMANDS.items():
    for each in commands:
        app.command(rich_help_panel=panel)(each)
app.add_typer(fabric.app, name="fabric", rich_help_panel=DEVICES)
app.add_typer(device.app, name="device", rich_help_panel=DEVICES)
app.add_typer(bench.app, name="bench", rich_help_panel=INSIGHT)
app.add_typer(placement.app, name="placement", rich_help_panel=SERVERS)


# ip, tc and nft; the PATH of an ordinary user, and of root by su, may lack these folders.
SYSTEM_FOLDERS = ("/usr/sbin", "/sbin")


def show_version(wanted: bool) -> None:
    """Print the versions of package, wire protocol and host interface, and exit."""
    if not wanted:
        return
    from fanin_wire import abi, fields

    try:
        version = metadata.version("fanin")
    except metadata.PackageNotFoundError:
        version = "(not installed)"
    print(f"fanin {version}, wire protocol {fields.WIRE_VERSION}, host interface {abi.ABI_VERSION}")
    raise typer.Exit


Version = Annotated[
    bool,
    typer.Option("--version", metavar="", callback=show_version, is_eager=True, help="Show the versions and exit."),
]


@app.callback()
def options_of_all(version: Version = False) -> None:
    """Collective communication in the network devices. Exit code 1: failure; 2: wrong usage."""


def main() -> None:
    """SIGTERM raises SystemExit, so that ranks and leased fabrics are ended. SIGINT raises KeyboardInterrupt even if a
    shell script starts the command in the background, with SIGINT ignored."""
    os.environ["PATH"] = os.pathsep.join([os.environ.get("PATH", os.defpath), *SYSTEM_FOLDERS])
    signal.signal(signal.SIGTERM, _terminated)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(output.obeying(lambda: app(prog_name="fanin", standalone_mode=False)))


def _terminated(number: int, frame: FrameType | None) -> NoReturn:
    raise SystemExit(output.TERMINATED)

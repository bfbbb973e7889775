"""Options that several subcommands have."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fanin_tools.errors import UsageError
from fanin_wire.limits import MAX_DETECTION, MAX_DEVICES, MAX_JOB_SLOTS, MAX_LANES, MIN_DETECTION, MIN_JOB_SLOTS

if TYPE_CHECKING:
    from fanin_wire.settings import JobSettings

MAX_CHILDREN = 64  # fanin_wire.abi.MAX_CHILDREN, whose module takes a while to load
MAX_RANKS = MAX_DEVICES * MAX_CHILDREN  # of a run
MAX_SECONDS = 1_000_000  # of a wait or run; the kernel counts milliseconds in 32 bits
MAX_COUNT = 1_000_000  # of turns, rows and the like
LOADING = "loading compiled code; what the cache lacks is compiled, in a minute or two"
MAX_SEED = 2**62  # campaigns count up from it, in 64 bits


def flag(names: str, *, help: str) -> Any:
    """An option without a value; typer would show it with `<bool>`."""
    return typer.Option(names, metavar="", help=help)


def count(*names: str, min: int = 0, **shown: Any) -> Any:
    return typer.Option(*names, min=min, max=MAX_COUNT, **shown)


def seconds(*names: str, min: float = 0.0, **shown: Any) -> Any:
    return typer.Option(*names, min=min, max=MAX_SECONDS, **shown)


def ranks(min: int) -> Any:
    """Number of ranks, by the names that MPI's users know."""
    return typer.Option("-n", "-np", "--ranks", min=min, max=MAX_RANKS, help="Number of ranks.")


Seed = Annotated[int, typer.Option(min=0, max=MAX_SEED, help="Seed of all random numbers.")]
Json = Annotated[bool, flag("--json", help="Print the result as JSON.")]
Name = Annotated[str, typer.Option("--name", "--fabric", help="Name of the fabric.")]
Nodes = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=MAX_DEVICES,
        help="Hosts, each with a NIC. Default: 4, or the product of --fanout.",
        show_default=False,
    ),
]
Fanout = Annotated[
    str, typer.Option(metavar="AxBx...", help="Tree of switches: devices below each switch, from the top, NICs last.")
]
PlainLeaves = Annotated[
    bool, flag("--plain-leaves", help="The lowest switches only forward; the NICs of each form a ring.")
]
RanksPerNode = Annotated[
    int | None, typer.Option(min=1, max=MAX_CHILDREN, help="Ranks that may run on each host; a device takes 64.")
]
Direct = Annotated[bool, flag("--direct", help="Links from NIC to NIC in a cycle, no switch.")]
Netns = Annotated[bool, flag("--netns", help="A network namespace per host, veth links (needs root).")]
Rate = Annotated[str, typer.Option(help="Shape every link, for example 1gbit (with --netns).")]
Lanes = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=MAX_LANES,
        help=f"Cores of each device: a power of two up to {MAX_LANES}. Default: 2 for one node, else 1.",
        show_default=False,
    ),
]
Detection = Annotated[
    float,
    typer.Option(
        metavar="SECONDS", min=MIN_DETECTION, max=MAX_DETECTION, help="Silence after which a neighbour is lost."
    ),
]
Multicast = Annotated[
    bool, flag("--multicast/--no-multicast", help="The only switch over namespaces multicasts results.")
]
Switch = Annotated[str, typer.Option(metavar="MODEL", help="software; rtl: the switch in Verilog, simulated.")]
Timeout = Annotated[
    float | None,
    seconds(metavar="SECONDS", min=0, help="Longest wait. Default: as long as it takes.", show_default=False),
]
Route = Annotated[str, typer.Option(help="Route of the job: tree, ring, local, auto.")]
BindTo = Annotated[str, typer.Option(help="core: bind each rank to one core, in turn; none.")]
Slots = Annotated[
    int,
    typer.Option(
        min=MIN_JOB_SLOTS, max=MAX_JOB_SLOTS, help="Segment buffers that a job leases on each device: a power of two."
    ),
]
Reproducible = Annotated[
    str, typer.Option(help="Same bits in every run: none; run, for one route; shape, for tree and ring together.")
]
Wide = Annotated[bool, flag("--wide", help="Partial results of small floats travel as f32, rounded once.")]


def job_settings(slots: int, reproducible: str, wide: bool) -> JobSettings:
    """From these options. Raises UsageError for a value that is not allowed."""
    from fanin_wire import settings

    given = {"slots": slots, "reproducible": reproducible, "wide": wide}
    try:
        return settings.convert(given, settings.JobSettings)
    except settings.InvalidSetting as error:
        raise UsageError(f"--{error.place}: {error.cause}", error.remedy) from error


def given(context: typer.Context, *allowed: str) -> list[str]:
    """The options on the command line as written, except for the parameters `allowed`."""
    found = []
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        if parameter.name not in allowed and source is not None and source.name == "COMMANDLINE":
            found.append(parameter.opts[0])
    return found


def again(context: typer.Context, arguments: Sequence[str], *left_out: str) -> str:
    """The command with the options that it was given and other arguments. left_out: parameters that are not repeated,
    such as files that would be overwritten."""
    words = ["fanin", *context.command_path.split()[1:]]
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        if parameter.name in left_out or parameter.param_type_name != "option" or source is None:
            continue
        if source.name == "COMMANDLINE":
            value = context.params[parameter.name or ""]
            names = [*parameter.opts, *parameter.secondary_opts]
            words += [names[0 if value else -1]] if isinstance(value, bool) else [names[0], str(value)]
    return shlex.join([*words, *arguments])

"""Options that several subcommands have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from fanin_tools.errors import UsageError
from fanin_wire.limits import MAX_JOB_SLOTS, MAX_LANES, MIN_JOB_SLOTS

if TYPE_CHECKING:
    from fanin_wire.settings import JobSettings


def flag(names: str, *, help: str) -> Any:
    """An option without a value; typer would show it with `<bool>`."""
    return typer.Option(names, metavar="", help=help)


Json = Annotated[bool, flag("--json", help="Print the result as JSON.")]
Name = Annotated[str, typer.Option("--name", "--fabric", help="Name of the fabric.")]
Nodes = Annotated[
    int | None,
    typer.Option(min=1, help="Hosts, each with a NIC. Default: 4, or the product of --fanout.", show_default=False),
]
Fanout = Annotated[
    str, typer.Option(metavar="AxBx...", help="Tree of switches: devices below each switch, from the top, NICs last.")
]
PlainLeaves = Annotated[
    bool, flag("--plain-leaves", help="The lowest switches only forward; the NICs of each form a ring.")
]
RanksPerNode = Annotated[
    int | None, typer.Option(min=1, help="Ranks that may run on each host. Default: 64, all that a device takes.")
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
Detection = Annotated[float, typer.Option(metavar="SECONDS", help="Silence after which a neighbour is lost.")]
Multicast = Annotated[
    bool, flag("--multicast/--no-multicast", help="The only switch over namespaces multicasts results.")
]
Switch = Annotated[str, typer.Option(metavar="MODEL", help="software; rtl: the switch in Verilog, simulated.")]
Timeout = Annotated[
    float | None,
    typer.Option(metavar="SECONDS", min=0, help="Longest wait. Default: as long as it takes.", show_default=False),
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
Wide = Annotated[bool, flag("--wide", help="Partial results of f16 and bf16 travel as f32, rounded once.")]


def job_settings(slots: int, reproducible: str, wide: bool) -> JobSettings:
    """The settings of a job, from these options. Raises UsageError for a value that is not allowed."""
    from fanin_wire import settings

    given = {"slots": slots, "reproducible": reproducible, "wide": wide}
    try:
        return settings.convert(given, settings.JobSettings)
    except settings.InvalidSetting as error:
        raise UsageError(f"--{error.place}: {error.cause}", error.remedy) from error


def given(context: typer.Context, *allowed: str) -> list[str]:
    """The options on the command line, as they are written, except for the parameters `allowed`."""
    found = []
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        if parameter.name not in allowed and source is not None and source.name == "COMMANDLINE":
            found.append(parameter.opts[0])
    return found

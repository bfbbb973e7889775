"""Options that several subcommands have."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated

import typer

from fanin_tools.errors import UsageError
from fanin_wire.limits import DEFAULT_DETECTION, MAX_JOB_SLOTS, MAX_LANES, MIN_JOB_SLOTS

if TYPE_CHECKING:
    from fanin_tools.fabric.generate import Shape
    from fanin_wire.settings import JobSettings

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Name = Annotated[str, typer.Option("--name", "--fabric", help="Name of the fabric.")]
Nodes = Annotated[
    int | None,
    typer.Option(min=1, help="Hosts, each with a NIC. Default: 4, or the product of --fanout.", show_default=False),
]
Fanout = Annotated[
    str, typer.Option(metavar="AxBx...", help="Tree of switches: devices below each switch, from the top, NICs last.")
]
PlainLeaves = Annotated[
    bool, typer.Option("--plain-leaves", help="The lowest switches only forward; the NICs of each form a ring.")
]
RanksPerNode = Annotated[int, typer.Option(min=1, help="Ranks that may run on each host.")]
Direct = Annotated[bool, typer.Option("--direct", help="Links from NIC to NIC in a cycle, no switch.")]
Netns = Annotated[bool, typer.Option("--netns", help="A network namespace per host, veth links (needs root).")]
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
    bool, typer.Option("--multicast/--no-multicast", help="The only switch over namespaces multicasts results.")
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
Wide = Annotated[bool, typer.Option("--wide", help="Partial results of f16 and bf16 travel as f32, rounded once.")]
DEFAULT_NODES = 4


def shape(
    nodes: int | None = None,
    ranks_per_node: int = 2,
    *,
    fanout: str = "",
    plain_leaves: bool = False,
    direct: bool = False,
    netns: bool = False,
    rate: str = "",
    lanes: int | None = None,
    detection: float = DEFAULT_DETECTION,
    multicast: bool = True,
) -> Shape:
    """The shape of a fabric, from these options."""
    from fanin_tools.fabric.generate import Shape

    levels = _levels(fanout)
    if nodes is None:
        nodes = math.prod(levels) if levels else DEFAULT_NODES
    return Shape(
        nodes,
        ranks_per_node,
        direct,
        netns,
        rate,
        lanes=lanes,
        fanout=levels,
        plain_leaves=plain_leaves,
        detection=detection,
        multicast=multicast,
    )


def job_settings(slots: int, reproducible: str, wide: bool) -> JobSettings:
    """The settings of a job, from these options. Raises UsageError for a value that is not allowed."""
    from fanin_wire import settings

    given = {"slots": slots, "reproducible": reproducible, "wide": wide}
    try:
        return settings.convert(given, settings.JobSettings)
    except settings.InvalidSetting as error:
        raise UsageError(f"--{error.place}: {error.cause}", error.remedy) from error


def _levels(fanout: str) -> tuple[int, ...]:
    numbers = fanout.split("x") if fanout else []
    if not all(number.isdecimal() for number in numbers):
        raise UsageError(f"--fanout {fanout!r} is not a product", "write numbers with x between them, as in 2x2x2")
    return tuple(map(int, numbers))


def given(context: typer.Context, *allowed: str) -> list[str]:
    """The options on the command line, as they are written, except for the parameters `allowed`."""
    found = []
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        if parameter.name not in allowed and source is not None and source.name == "COMMANDLINE":
            found.append(parameter.opts[0])
    return found

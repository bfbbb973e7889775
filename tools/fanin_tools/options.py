"""Options that several subcommands share, and how sizes are written."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from fanin_tools.errors import UsageError

SIZE_PATTERN = re.compile(r"(\d+)([KMG]?)(?:i?B)?", re.IGNORECASE)
FACTORS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Name = Annotated[str, typer.Option("--name", "--fabric", help="Name of the fabric.")]
Nodes = Annotated[int, typer.Option(min=1, help="Hosts, each with one NIC.")]
RanksPerNode = Annotated[int, typer.Option(min=1, help="Ranks that may run on each host.")]
Direct = Annotated[bool, typer.Option("--direct", help="Links from NIC to NIC in a cycle, no switch.")]
Netns = Annotated[bool, typer.Option("--netns", help="A network namespace per host, veth links (needs root).")]
Rate = Annotated[str, typer.Option(help="Shape every link, for example 1gbit (with --netns).")]
Lanes = Annotated[int, typer.Option(min=1, help="Cores that each device uses: a power of two up to 16.")]
Route = Annotated[str, typer.Option(help="Way of the job: tree, ring, local, auto.")]


def parse_size(text: str) -> int:
    """Bytes of "4097", "64K", "16M", "1G" (powers of 1024, "B" and "iB" allowed behind it)."""
    match = SIZE_PATTERN.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"{text!r} is not a size", "write bytes, as in 4097, 64K or 16M")
    return int(match[1]) * FACTORS[match[2].upper()]


def render_size(count: float) -> str:
    """A number of bytes for people: "64 MiB", "96.5 KiB", "12 B"."""
    for factor, unit in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if count >= factor:
            return f"{count / factor:.4g} {unit}"
    return f"{count:.0f} B"


def render_time(seconds: float) -> str:
    """A duration for people: "5.3 us", "11.2 ms", "1.2 s"."""
    for factor, unit in ((1.0, "s"), (1e-3, "ms")):
        if seconds >= factor:
            return f"{seconds / factor:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"

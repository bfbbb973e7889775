"""What links do: lose packets at random, one by one, and go down and up. Of fabrics in namespaces (`--netns`)."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
from collections.abc import Iterator, Sequence

from fanin_tools.errors import ToolError
from fanin_tools.fabric import namespaces
from fanin_tools.fabric.description import Fabric
from fanin_wire.fields import UDP_PORT

COMMAND_SECONDS = 20.0
HOOKS = {"arriving": "input", "leaving": "output"}  # nftables: where a host meets its packets
TABLE = "fanin_loss"


def inside(fabric: Fabric, host: str, *command: str, text: str | None = None) -> str:
    """Output of a command on a host; ToolError COMMAND_FAILED if it fails. text: its input."""
    whole = [*namespaces.prefix_command(fabric, host), *command]
    done = subprocess.run(whole, capture_output=True, text=True, input=text, timeout=COMMAND_SECONDS)
    if done.returncode:
        cause = f"`{' '.join(whole)}` on {host}: {done.stderr.strip()}"
        raise ToolError("COMMAND_FAILED", cause, "see fanin doctor for what this machine can do")
    return done.stdout


def interfaces(fabric: Fabric, device: str) -> list[str]:
    """Interfaces of a device's links."""
    ends = [(index, link) for index, link in enumerate(fabric.links) if device in link.ends]
    return [namespaces.interface(fabric, index, fabric.device(device)) for index, _ in ends]


def cut_super_packets(fabric: Fabric) -> None:
    """Let every packet pass the links by itself, so that a loss or a capture is of one packet."""
    for device in fabric.devices:
        for name in interfaces(fabric, device.name):
            inside(fabric, device.host, "ip", "link", "set", "dev", name, "gso_max_segs", "1")


def require_loss(fabric: Fabric) -> None:
    """ToolError NOT_SUPPORTED unless packets of `fabric` can be lost here."""
    if shutil.which("nft") is None:
        raise ToolError("NOT_SUPPORTED", "loss needs the command nft", "install nftables")
    if not fabric.netns:
        raise ToolError("NOT_SUPPORTED", f"fabric {fabric.name} has no links", "bring it up with --netns")


@contextlib.contextmanager
def loss(
    fabric: Fabric, per_mille: int, direction: str = "arriving", hosts: Sequence[str] | None = None
) -> Iterator[None]:
    """Lose that many of a thousand RoCEv2 packets, each by chance, for the time of the block.

    direction: "arriving" or "leaving", as the hosts see it. hosts: names of hosts; all by default.
    """
    require_loss(fabric)
    places = list(hosts) if hosts is not None else [device.host for device in fabric.daemons]
    with contextlib.ExitStack() as undo:  # all of it, also where a part fails
        for host in places:
            undo.callback(inside, fabric, host, "nft", "-f", "-", text=f"table ip {TABLE}\ndelete table ip {TABLE}\n")
            inside(fabric, host, "nft", "-f", "-", text=_ruleset(per_mille, HOOKS[direction]))
        yield


def _ruleset(per_mille: int, hook: str) -> str:
    rule = f"udp dport {UDP_PORT} numgen random mod 1000 < {per_mille} counter drop"
    return f"table ip {TABLE} {{\nchain losing {{\ntype filter hook {hook} priority 0;\n{rule}\n}}\n}}\n"


def lost(fabric: Fabric, hosts: Sequence[str] | None = None) -> int:
    """Packets that `loss` has dropped so far; within its block."""
    places = list(hosts) if hosts is not None else [device.host for device in fabric.daemons]
    return sum(_dropped(inside(fabric, host, "nft", "--json", "list", "table", "ip", TABLE)) for host in places)


def _dropped(listing: str) -> int:
    rules = [entry["rule"]["expr"] for entry in json.loads(listing)["nftables"] if "rule" in entry]
    return sum(part["counter"]["packets"] for rule in rules for part in rule if "counter" in part)


@contextlib.contextmanager
def link_down(fabric: Fabric, device: str) -> Iterator[None]:
    """The links of a device are down for the time of the block. (Direct links would lose their routes with it.)"""
    if not fabric.netns or not fabric.switches:
        cause = f"fabric {fabric.name} has no links to a switch"
        raise ToolError("NOT_SUPPORTED", cause, "bring it up with --netns, and without --direct")
    host = fabric.device(device).host
    with contextlib.ExitStack() as undo:
        for name in interfaces(fabric, device):
            undo.callback(inside, fabric, host, "ip", "link", "set", "dev", name, "up")
            inside(fabric, host, "ip", "link", "set", "dev", name, "down")
        yield

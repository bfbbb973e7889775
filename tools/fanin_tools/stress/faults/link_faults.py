"""Faults of the links of a fabric in namespaces: random loss of single packets, and links that go down."""

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
HOOKS = {"arriving": "input", "leaving": "output"}  # hooks of nftables
TABLE = "fanin_loss"


def inside(fabric: Fabric, host: str, *command: str, text: str | None = None) -> str:
    """The output of a command on a host. text: its input. Raises ToolError COMMAND_FAILED."""
    whole = [*namespaces.prefix_command(fabric, host), *command]
    done = subprocess.run(whole, capture_output=True, text=True, input=text, timeout=COMMAND_SECONDS)
    if done.returncode:
        cause = f"`{' '.join(whole)}` on {host}: {done.stderr.strip()}"
        raise ToolError("COMMAND_FAILED", cause, "see fanin doctor for what this machine can do")
    return done.stdout


def interfaces(fabric: Fabric, device: str) -> list[str]:
    ends = [(index, link) for index, link in enumerate(fabric.links) if device in link.ends]
    return [namespaces.interface(fabric, index, fabric.device(device)) for index, _ in ends]


def cut_super_packets(fabric: Fabric) -> None:
    """Single packets instead of super-packets, so that loss and capture are of one packet."""
    for device in fabric.devices:
        for name in interfaces(fabric, device.name):
            inside(fabric, device.host, "ip", "link", "set", "dev", name, "gso_max_segs", "1")


def require_loss(fabric: Fabric) -> None:
    """Raise ToolError NOT_SUPPORTED unless this machine can lose packets of `fabric`."""
    if shutil.which("nft") is None:
        raise ToolError("NOT_SUPPORTED", "loss needs the command nft", "install nftables")
    if not fabric.netns:
        raise ToolError("NOT_SUPPORTED", f"fabric {fabric.name} has no links", "bring it up with --netns")


@contextlib.contextmanager
def loss(
    fabric: Fabric, per_mille: int, direction: str = "arriving", hosts: Sequence[str] | None = None
) -> Iterator[None]:
    """Lose RoCEv2 packets at random for the time of the block.

    fabric: in namespaces. per_mille: of packets that are lost. direction: "arriving" or "leaving", as the hosts see it.
    hosts: names; None: all.
    """
    require_loss(fabric)
    places = list(hosts) if hosts is not None else [device.host for device in fabric.daemons]
    with contextlib.ExitStack() as undo:  # undoes all changes, even if one fails
        for host in places:
            undo.callback(inside, fabric, host, "nft", "-f", "-", text=f"table ip {TABLE}\ndelete table ip {TABLE}\n")
            inside(fabric, host, "nft", "-f", "-", text=_ruleset(per_mille, HOOKS[direction]))
        yield


def _ruleset(per_mille: int, hook: str) -> str:
    rule = f"udp dport {UDP_PORT} numgen random mod 1000 < {per_mille} counter drop"
    return f"table ip {TABLE} {{\nchain losing {{\ntype filter hook {hook} priority 0;\n{rule}\n}}\n}}\n"


def lost(fabric: Fabric, hosts: Sequence[str] | None = None) -> int:
    """Packets that `loss` has dropped; called within its block."""
    places = list(hosts) if hosts is not None else [device.host for device in fabric.daemons]
    return sum(_dropped(inside(fabric, host, "nft", "--json", "list", "table", "ip", TABLE)) for host in places)


def _dropped(listing: str) -> int:
    rules = [entry["rule"]["expr"] for entry in json.loads(listing)["nftables"] if "rule" in entry]
    return sum(part["counter"]["packets"] for rule in rules for part in rule if "counter" in part)


@contextlib.contextmanager
def link_down(fabric: Fabric, device: str) -> Iterator[None]:
    """Take a device's links down for the time of the block. Direct links would lose their routes."""
    if not fabric.netns or not fabric.switches:
        cause = f"fabric {fabric.name} has no links to a switch"
        raise ToolError("NOT_SUPPORTED", cause, "bring it up with --netns, and without --direct")
    host = fabric.device(device).host
    with contextlib.ExitStack() as undo:
        for name in interfaces(fabric, device):
            undo.callback(inside, fabric, host, "ip", "link", "set", "dev", name, "up")
            inside(fabric, host, "ip", "link", "set", "dev", name, "down")
        yield

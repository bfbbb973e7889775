"""Commands on the hosts of a fabric of namespaces, and the links that end there."""

from __future__ import annotations

import subprocess

from fanin_tools.errors import ToolError
from fanin_tools.fabric import namespaces
from fanin_tools.fabric.description import Fabric
from fanin_tools.fabric.lifecycle import Running

SECONDS = 20.0  # longest that a command on a host may take


def inside(fabric: Fabric, host: str, *command: str, text: str | None = None) -> str:
    """Output of a command on a host; ToolError COMMAND_FAILED if it fails. text: its input."""
    whole = [*namespaces.prefix_command(fabric, host), *command]
    done = subprocess.run(whole, capture_output=True, text=True, input=text, timeout=SECONDS)
    if done.returncode:
        cause = f"`{' '.join(command)}` on {host} of fabric {fabric.name}: {done.stderr.strip()}"
        raise ToolError("COMMAND_FAILED", cause, "see whether fanin doctor finds what this machine lacks")
    return done.stdout


def interfaces(fabric: Fabric, device: str) -> list[str]:
    """Interfaces of a device's links."""
    ends = [(index, link) for index, link in enumerate(fabric.links) if device in link.ends]
    return [namespaces.interface(fabric, index, fabric.device(device)) for index, _ in ends]


def cut_super_packets(running: Running) -> None:
    """Let every packet pass the links by itself, so that a capture or a loss is of one packet."""
    for device in running.fabric.devices:
        for name in interfaces(running.fabric, device.name):
            inside(running.fabric, device.host, "ip", "link", "set", "dev", name, "gso_max_segs", "1")

"""Commands inside the namespaces of a fabric: packets taken from a link, packets lost on it."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Iterator

import pytest

from fanin_tools.fabric import namespaces
from fanin_tools.fabric.description import Fabric
from fanin_tools.fabric.lifecycle import Running
from fanin_wire.fields import UDP_PORT
from tests.e2e.fabrics import BOUND_S


def inside(fabric: Fabric, host: str, *command: str, text: str | None = None) -> str:
    """Output of a command on a host; it must succeed."""
    whole = [*namespaces.prefix_command(fabric, host), *command]
    done = subprocess.run(whole, capture_output=True, text=True, input=text, timeout=BOUND_S)
    assert done.returncode == 0, f"{whole}: {done.stderr}"
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


@contextlib.contextmanager
def loss(running: Running, per_mille: int) -> Iterator[None]:
    """Lose that many of a thousand RoCEv2 packets, drawn at random where they arrive, on every host."""
    if shutil.which("nft") is None:
        pytest.skip("the program `nft` (nftables), to lose packets in the kernel")
    rule = f"udp dport {UDP_PORT} numgen random mod 1000 < {per_mille} drop"
    table = f"table ip loss {{\nchain arriving {{\ntype filter hook input priority 0;\n{rule}\n}}\n}}\n"
    hosts = [device.host for device in running.fabric.devices]
    try:
        for host in hosts:
            inside(running.fabric, host, "nft", "-f", "-", text=table)
        yield
    finally:
        for host in hosts:
            inside(running.fabric, host, "nft", "flush", "ruleset")

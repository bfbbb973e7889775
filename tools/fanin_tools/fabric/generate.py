"""Descriptions made from a few numbers: n NICs around one switch, or n NICs in a cycle."""

from __future__ import annotations

import socket
from dataclasses import dataclass

from fanin_tools.errors import ToolError
from fanin_tools.fabric.description import Device, Fabric, Link, check
from fanin_wire.fields import UDP_PORT

NETNS_PREFIX = "10.77.0"  # namespaces are islands: no other host sees these addresses
FIRST_LOOPBACK_BLOCK = 77
SWITCH_HOST_NUMBER = 254


@dataclass(frozen=True)
class Shape:
    """The options of `fanin fabric up`."""

    nodes: int = 4
    ranks_per_node: int = 2
    direct: bool = False
    netns: bool = False
    rate: str = ""
    slots: int = 4096
    mtu: int = 9000
    lanes: int = 1


def make(name: str, shape: Shape, prefix: str | None = None) -> Fabric:
    """The description of a fabric called `name`. prefix: first three numbers of its addresses, else chosen here."""
    if prefix is None:
        prefix = NETNS_PREFIX if shape.netns else free_loopback_prefix()
    devices = [
        Device("nic", f"nic{node}", f"{prefix}.{node + 1}", f"host{node}", shape.ranks_per_node, shape.slots)
        for node in range(shape.nodes)
    ]
    if not shape.direct:
        devices.append(Device("switch", "switch", f"{prefix}.{SWITCH_HOST_NUMBER}", "switch", 0, shape.slots))
    links = tuple(Link(ends, shape.rate) for ends in (_cycle(shape.nodes) if shape.direct else _star(shape.nodes)))
    return check(Fabric(name, tuple(devices), links, shape.mtu, shape.netns, shape.lanes), "options")


def _star(nodes: int) -> list[tuple[str, str]]:
    return [(f"nic{node}", "switch") for node in range(nodes)]


def _cycle(nodes: int) -> list[tuple[str, str]]:
    """Each NIC to the next; two NICs need one cable, one NIC none."""
    cables = {1: 0, 2: 1}.get(nodes, nodes)
    return [(f"nic{node}", f"nic{(node + 1) % nodes}") for node in range(cables)]


def free_loopback_prefix() -> str:
    """The first 127.77.y on whose addresses no RoCEv2 port is bound."""
    for third in range(256):
        prefix = f"127.{FIRST_LOOPBACK_BLOCK}.{third}"
        if _port_is_free(f"{prefix}.1") and _port_is_free(f"{prefix}.{SWITCH_HOST_NUMBER}"):
            return prefix
    raise ToolError(
        "NO_RESOURCES",
        f"UDP port {UDP_PORT} is taken on all of 127.{FIRST_LOOPBACK_BLOCK}.0.0/16",
        "take other fabrics down (fanin fabric status) or give addresses in a description file",
    )


def _port_is_free(address: str) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((address, UDP_PORT))
        except OSError:
            return False
    return True

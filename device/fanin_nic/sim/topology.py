"""Who is connected to whom in a simulated fabric, and the way of a tree's job through it."""

from __future__ import annotations

from typing import NamedTuple


class Hop(NamedTuple):
    """A switch on the way up: its index, the bit of the device below at it, and all bits that it waits for."""

    switch: int
    bit: int
    mask: int


def nic_address(node: int) -> str:
    """IPv4 address of a node's NIC."""
    return f"10.0.{1 + node // 250}.{1 + node % 250}"


def switch_address(switch: int) -> str:
    """IPv4 address of a switch; 0 is the top."""
    return f"10.0.0.{1 + switch}"


def leaf_of(node: int, nodes: int, leaves: int) -> int:
    """Which of `leaves` leaf switches a node hangs on: the nodes are dealt out in runs of equal length."""
    return node * leaves // nodes


def path(nodes: list[int], node: int, total: int, leaves: int) -> list[Hop]:
    """The way up from `node` for a job of `nodes`. `leaves` 0: one switch; else a switch above that many leaf switches.

    Bits follow the order of the nodes.
    """
    if leaves == 0:
        return [Hop(0, nodes.index(node), (1 << len(nodes)) - 1)]
    mine = leaf_of(node, total, leaves)
    siblings = [other for other in nodes if leaf_of(other, total, leaves) == mine]
    used = sorted({leaf_of(other, total, leaves) for other in nodes})
    return [
        Hop(1 + mine, siblings.index(node), (1 << len(siblings)) - 1),
        Hop(0, used.index(mine), (1 << len(used)) - 1),
    ]

"""The uplinks of a job's nodes: the switches that compute for it, and the rings of NICs on plain switches."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from fanin_tools.fabric.description import Device
from fanin_tools.fabric.tree import Tree


@dataclass(frozen=True)
class Uplinks:
    """Of a node.

    switches: addresses of the offloading switches above it, lowest first, up to the job's top switch. ring: number of
    its ring on a plain switch; None: in no ring.
    """

    switches: tuple[str, ...] = ()
    ring: int | None = None


def uplinks_of(tree: Tree, nics: Sequence[Device]) -> tuple[Uplinks, ...] | None:
    """Of `nics`, up to the lowest offloading switch above all of them; None if there is no such switch."""
    paths = [tree.offloading_above(nic) for nic in nics]
    top = next((switch for switch in paths[0] if all(switch in path for path in paths)), None)
    if top is None:
        return None
    rings = _rings(tree, nics)
    return tuple(
        Uplinks(tuple(switch.address for switch in path[: path.index(top) + 1]), ring)
        for path, ring in zip(paths, rings, strict=True)
    )


def is_one_ring(uplinks: Sequence[Uplinks]) -> bool:
    """All nodes are in one ring: no switch has anything to reduce."""
    return uplinks[0].ring is not None and len({uplink.ring for uplink in uplinks}) == 1


def _rings(tree: Tree, nics: Sequence[Device]) -> list[int | None]:
    """For each NIC the number of its ring; None for a NIC that is alone on its plain switch."""
    plain = [_plain_switch(tree, nic) for nic in nics]
    members = Counter(plain)
    numbers = {name: number for number, name in enumerate(dict.fromkeys(n for n in plain if n and members[n] > 1))}
    return [numbers.get(name) if name else None for name in plain]


def _plain_switch(tree: Tree, nic: Device) -> str | None:
    """Name of the lowest switch above a NIC, if that switch does not offload."""
    switch = tree.above(nic)[0]
    return None if switch.offload else switch.name

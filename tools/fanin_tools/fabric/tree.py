"""The tree that the links of a fabric with switches form, the order of its nodes, and the uplinks of each NIC.

A link between NIC and switch leads up to the switch; between two switches, to its second end. A plain switch is no
level of the tree. Devices below it are children of the offloading switch above it, except that its own NICs form a
ring, which is one child.

Programs that find their device themselves read the uplinks from a file (`host/fanin/mpi/comm/device.c`). It has a row
for each NIC, in the order of the nodes: "SOCKET ADDRESS RING SWITCH...". SOCKET is a name in the same folder. RING is
the number of the ring that the NICs of a plain switch form, 0 for none. The addresses of the offloading switches
follow, the lowest first, as in the file of a job.
"""

import re
from collections.abc import Iterator

from fanin_tools.fabric.description import DescriptionError, Device, Fabric, Link
from fanin_wire.abi import MAX_CHILDREN, MAX_HOPS
from fanin_wire.job_text import place_text

UPLINKS_NAME = "uplinks"
RDMA_ADDRESS = re.compile(r"(?:^|(?<=:))rdma://[^:]*(?::[^:]*)?")  # the rule of host/fanin/core/device/remote.c


class Tree:
    """Of a fabric that passed `check`. Without switches it has no links."""

    def __init__(self, fabric: Fabric) -> None:
        self._by_name = {device.name: device for device in fabric.devices}
        self._above: dict[str, str] = {}
        self._below: dict[str, list[Device]] = {device.name: [] for device in fabric.devices}
        for link in fabric.links if fabric.switches else ():
            lower, upper = uplink_ends(link, self._by_name)
            self._above[lower] = upper
        for device in fabric.devices:
            if upper_name := self._above.get(device.name):
                self._below[upper_name].append(device)
        self._roots = [device for device in fabric.devices if device.name not in self._above]

    def above(self, device: Device) -> tuple[Device, ...]:
        """All switches above a device, the lowest first."""
        found: list[Device] = []
        name = device.name
        while upper := self._above.get(name):
            found.append(self._by_name[upper])
            name = upper
        return tuple(found)

    def offloading_above(self, device: Device) -> tuple[Device, ...]:
        """The lowest first."""
        return tuple(switch for switch in self.above(device) if switch.offload)

    def nics(self) -> tuple[Device, ...]:
        """In the order of the nodes: below each switch first its NICs, then its switches."""
        return tuple(nic for root in self._roots for nic in self._nics_below(root))

    def top_down(self) -> Iterator[tuple[Device, int]]:
        """Each device with its depth, followed by all below it."""
        for root in self._roots:
            yield from self._branch(root, 0)

    def _branch(self, device: Device, depth: int) -> Iterator[tuple[Device, int]]:
        yield device, depth
        for child in self._below[device.name]:
            yield from self._branch(child, depth + 1)

    def _nics_below(self, device: Device) -> Iterator[Device]:
        if device.kind == "nic":
            yield device
        for child in sorted(self._below[device.name], key=lambda child: child.kind != "nic"):
            yield from self._nics_below(child)

    def children(self, switch: Device) -> int:
        """Number of devices that send to the switch, also through plain switches."""
        return sum(self._counted(child) for child in self._below[switch.name])

    def _counted(self, child: Device) -> int:
        if child.offload:
            return 1
        below = self._below[child.name]
        ring = any(device.kind == "nic" for device in below)
        return ring + sum(self._counted(device) for device in below if device.kind == "switch")

    def ring_nodes(self, switch: Device) -> int:
        """NICs that are linked to the switch itself."""
        return sum(device.kind == "nic" for device in self._below[switch.name])


def parent_group(fabric: Fabric, device: Device) -> str:
    """The multicast group of the lowest offloading switch above a device; "" if there is none."""
    above = Tree(fabric).offloading_above(device)
    return above[0].group if above else ""


def listeners(fabric: Fabric, switch: Device) -> list[Device]:
    """The daemons right below an offloading switch, which listen to its multicast group."""
    tree = Tree(fabric)
    return [device for device in fabric.daemons if tree.offloading_above(device)[:1] == (switch,)]


def uplink_ends(link: Link, devices: dict[str, Device]) -> tuple[str, str]:
    """Lower and upper end of a link to a switch."""
    first, second = link.ends
    return (second, first) if devices[second].kind == "nic" else (first, second)


def check(fabric: Fabric, source: str) -> None:
    """Raise DescriptionError unless the links of a fabric with switches form one tree."""
    _check_uplinks(fabric, source)
    _check_root(fabric, source)
    tree = Tree(fabric)
    for index, device in enumerate(fabric.devices):
        place = f"{source}: device[{index}]"
        if device.kind == "switch":
            _check_children(tree, device, place)
        levels = sum(switch.offload for switch in tree.above(device))
        if levels > MAX_HOPS:
            cause = f"{levels} offloading switches above {device.name}"
            raise DescriptionError(place, cause, f"use at most {MAX_HOPS} levels")


def _check_uplinks(fabric: Fabric, source: str) -> None:
    """Every NIC must have one link, to a switch; a switch may have one link up."""
    devices = {device.name: device for device in fabric.devices}
    uplinks: dict[str, list[str]] = {name: [] for name in devices}
    for index, link in enumerate(fabric.links):
        if all(devices[end].kind == "nic" for end in link.ends):
            cause = f"the link joins two NICs, {' and '.join(link.ends)}, although there is a switch"
            remedy = "link every NIC to a switch, or leave the switches out"
            raise DescriptionError(f"{source}: link[{index}].ends", cause, remedy)
        lower, upper = uplink_ends(link, devices)
        uplinks[lower].append(upper)
        if len(uplinks[lower]) > 1:
            cause = f"{lower} has links up to {' and '.join(uplinks[lower])}"
            remedy = "give every device one; of two switches name the lower one first"
            raise DescriptionError(f"{source}: link[{index}].ends", cause, remedy)
    for index, device in enumerate(fabric.devices):
        if device.kind == "nic" and not uplinks[device.name]:
            cause = f"{device.name} has no link to a switch"
            remedy = f'add a [[link]] with ends = ["{device.name}", "{fabric.switches[0].name}"]'
            raise DescriptionError(f"{source}: device[{index}]", cause, remedy)


def _check_root(fabric: Fabric, source: str) -> None:
    """Exactly one switch must have no link up, and every path up must end there."""
    devices = {device.name: device for device in fabric.devices}
    above = dict(uplink_ends(link, devices) for link in fabric.links)
    roots = [switch.name for switch in fabric.switches if switch.name not in above]
    if len(roots) > 1:
        cause = f"{len(roots)} switches have no link to one above: {', '.join(roots[:4])}"
        raise DescriptionError(f"{source}: link", cause, "link all but the top switch to the one above it")
    for index, device in enumerate(fabric.devices):
        seen = [device.name]
        while (upper := above.get(seen[-1])) is not None:
            if upper in seen:
                cause = f"the links form a cycle: {' - '.join([*seen[seen.index(upper) :], upper])}"
                raise DescriptionError(f"{source}: device[{index}]", cause, "let every path up end at one top switch")
            seen.append(upper)


def _check_children(tree: Tree, switch: Device, place: str) -> None:
    if switch.offload and tree.children(switch) > MAX_CHILDREN:
        cause = f"{switch.name} has {tree.children(switch)} children"
        raise DescriptionError(place, cause, f"use at most {MAX_CHILDREN}; for more nodes another level (--fanout)")
    if not switch.offload and tree.ring_nodes(switch) > MAX_CHILDREN:
        cause = f"{tree.ring_nodes(switch)} NICs on {switch.name}, which does not offload"
        raise DescriptionError(place, cause, f"use at most {MAX_CHILDREN}: they form a ring")


def render_uplinks(fabric: Fabric) -> str:
    tree = Tree(fabric)
    plain = [switch.name for switch in fabric.switches if not switch.offload]
    return "".join(f"{nic.name}.sock {_uplinks_of(tree, nic, plain)}\n" for nic in tree.nics())


def _uplinks_of(tree: Tree, nic: Device, plain: list[str]) -> str:
    above = tree.above(nic)
    ring = plain.index(above[0].name) if above and above[0].name in plain else None
    return place_text(nic.address, ring, [switch.address for switch in tree.offloading_above(nic)])


def remote_addresses(sockets: str) -> list[str]:
    """Addresses with rdma:// in a list with ':' between."""
    return RDMA_ADDRESS.findall(sockets)

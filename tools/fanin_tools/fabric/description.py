"""What a fabric consists of: its devices and the links between them.

Kinds of fabric differ only in their links: a tree of switches with the NICs as its leaves, or NIC to NIC in a cycle.
The route of a job (tree, ring, local) is chosen later, per job. What makes sense is checked in `checks` and `tree`.
"""

from __future__ import annotations

from dataclasses import dataclass

from fanin_tools.errors import UsageError
from fanin_tools.quantities import counted
from fanin_wire.detection import DEFAULT_DETECTION

KINDS = ("nic", "switch")


class DescriptionError(UsageError):
    """A description that can not be meant: names the place in it, what is wrong there, and what to write instead."""

    def __init__(self, place: str, cause: str, remedy: str) -> None:
        super().__init__(f"{place}: {cause}", remedy, name="BAD_DESCRIPTION")


@dataclass(frozen=True)
class Device:
    """A NIC or a switch.

    kind: "nic" or "switch"
    address: IPv4 address of its RoCEv2 port; "" for a switch that only forwards
    host: the host that it belongs to; with namespaces, the namespace
    ranks: how many ranks may run on its host (a switch: 0)
    slots: segment buffers of each lane of the device, the quota that jobs lease from
    offload: whether it computes; a plain switch only forwards, and no daemon runs for it
    group: multicast address that its results go to, for all devices below that hear it; "" for none
    """

    kind: str
    name: str
    address: str
    host: str
    ranks: int = 0
    slots: int = 4096
    offload: bool = True
    group: str = ""


@dataclass(frozen=True)
class Link:
    """A cable between two devices; of two switches the lower one is the first end.

    rate: as tc writes it ("1gbit"), "" for unshaped.
    """

    ends: tuple[str, str]
    rate: str = ""


@dataclass(frozen=True)
class Fabric:
    """All devices and links of a fabric.

    mtu: bytes of the largest IP packet on its links
    lanes: cores that each device uses; alike on all, since they cut messages alike
    detection: seconds of silence after which a device takes its neighbour for lost
    """

    name: str
    devices: tuple[Device, ...]
    links: tuple[Link, ...]
    mtu: int = 9000
    netns: bool = False
    lanes: int = 1
    detection: float = DEFAULT_DETECTION

    @property
    def nics(self) -> tuple[Device, ...]:
        """The NICs, in the order of the description."""
        return tuple(device for device in self.devices if device.kind == "nic")

    @property
    def switches(self) -> tuple[Device, ...]:
        """All switches, in the order of the description; none on direct links."""
        return tuple(device for device in self.devices if device.kind == "switch")

    @property
    def daemons(self) -> tuple[Device, ...]:
        """The devices that compute: for each of them a process runs."""
        return tuple(device for device in self.devices if device.offload)

    def device(self, name: str) -> Device:
        """The device called `name`; KeyError if there is none."""
        return {device.name: device for device in self.devices}[name]


def summary(fabric: Fabric) -> str:
    """How many devices of which kind, for people."""
    plain = sum(not switch.offload for switch in fabric.switches)
    parts = [counted(len(fabric.nics), "NIC")]
    if offloading := len(fabric.switches) - plain:
        parts.append(counted(offloading, "switch"))
    if plain:
        parts.append(counted(plain, "plain switch"))
    return ", ".join(parts) if fabric.switches else f"{parts[0]} on direct links"

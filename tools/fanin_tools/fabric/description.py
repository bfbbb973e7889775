"""What a fabric consists of: dataclasses, checked when they are made.

Kinds of fabric differ only in their links: every NIC to one switch, or NIC to NIC in a cycle. The route of a job
(tree, ring, local) is chosen later, per job.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass

from fanin_tools.errors import UsageError

KINDS = ("nic", "switch")
MAX_NODES = 64  # bits of a node bitmap
MAX_LANES = 16  # of a device
MAX_RANKS_PER_NODE = 64  # bits of a rank bitmap
NAME_PATTERN = re.compile(r"[a-z0-9][a-z0-9-]{0,23}")
RATE_PATTERN = re.compile(r"\d+(\.\d+)?[kmg]?bit")
LOOPBACK = ipaddress.IPv4Network("127.0.0.0/8")


class DescriptionError(UsageError):
    """A description that can not be meant: names the place in it, what is wrong there, and what to write instead."""

    def __init__(self, place: str, cause: str, remedy: str) -> None:
        super().__init__(f"{place}: {cause}", remedy, name="BAD_DESCRIPTION")


@dataclass(frozen=True)
class Device:
    """A NIC or a switch.

    kind: "nic" or "switch"
    address: IPv4 address of its RoCEv2 port
    host: the host that it belongs to; with namespaces, the namespace
    ranks: how many ranks may run on its host (a switch: 0)
    slots: segment buffers of each lane of the device, the quota that jobs lease from
    """

    kind: str
    name: str
    address: str
    host: str
    ranks: int = 0
    slots: int = 4096


@dataclass(frozen=True)
class Link:
    """A cable between two devices. rate: as tc writes it ("1gbit"), "" for unshaped."""

    ends: tuple[str, str]
    rate: str = ""


@dataclass(frozen=True)
class Fabric:
    """All devices and links of a fabric.

    mtu: bytes of the largest IP packet on its links
    lanes: cores that each device uses; alike on all, since they cut messages alike
    """

    name: str
    devices: tuple[Device, ...]
    links: tuple[Link, ...]
    mtu: int = 9000
    netns: bool = False
    lanes: int = 1

    @property
    def nics(self) -> tuple[Device, ...]:
        """The NICs, in the order of the nodes."""
        return tuple(device for device in self.devices if device.kind == "nic")

    @property
    def switch(self) -> Device | None:
        """The switch, or None on direct links."""
        return next((device for device in self.devices if device.kind == "switch"), None)

    def device(self, name: str) -> Device:
        """The device called `name`; KeyError if there is none."""
        return {device.name: device for device in self.devices}[name]


def check(fabric: Fabric, source: str) -> Fabric:
    """Return `fabric` if it can be built, else raise DescriptionError. source: where it was read, for the message."""
    check_name(fabric.name, f"{source}: name")
    _check_range(fabric.mtu, 1280, 65535, f"{source}: mtu")
    _check_range(fabric.lanes, 1, MAX_LANES, f"{source}: lanes")
    _check_power_of_two(fabric.lanes, 2, f"{source}: lanes")
    for index, device in enumerate(fabric.devices):
        _check_device(device, f"{source}: device[{index}]")
    for key in ("name", "address", "host"):
        _check_unique([getattr(device, key) for device in fabric.devices], f"{source}: device.{key}")
    _check_counts(fabric, source)
    for index, link in enumerate(fabric.links):
        _check_link(fabric, link, f"{source}: link[{index}]")
    return fabric


def check_name(name: str, place: str) -> None:
    """Raise DescriptionError unless `name` can be part of a path, of a namespace's name and of a TOML string."""
    if not NAME_PATTERN.fullmatch(name):
        raise DescriptionError(place, f"{name!r} is not a name", "use 1 to 24 of a-z, 0-9 and '-'")


def _check_range(value: int, low: int, high: int, place: str) -> None:
    if not low <= value <= high:
        raise DescriptionError(place, f"{value} is out of range", f"use {low} to {high}")


def _check_power_of_two(value: int, example: int, place: str) -> None:
    if value & (value - 1):
        raise DescriptionError(place, f"{value} is not a power of two", f"use for example {example}")


def _check_unique(values: Iterable[str], place: str) -> None:
    seen: set[str] = set()
    for value in values:
        if value in seen:
            raise DescriptionError(place, f"{value!r} occurs twice", "give every device its own")
        seen.add(value)


def _check_device(device: Device, place: str) -> None:
    if device.kind not in KINDS:
        raise DescriptionError(f"{place}.kind", f"{device.kind!r} is not a kind of device", "use nic or switch")
    check_name(device.name, f"{place}.name")
    check_name(device.host, f"{place}.host")
    try:
        ipaddress.IPv4Address(device.address)
    except ValueError:
        raise DescriptionError(
            f"{place}.address", f"{device.address!r} is not an IPv4 address", "write four numbers, as in 127.77.0.1"
        ) from None
    if device.kind == "nic":
        _check_range(device.ranks, 1, MAX_RANKS_PER_NODE, f"{place}.ranks")
    _check_range(device.slots, 2, 1 << 20, f"{place}.slots")
    _check_power_of_two(device.slots, 4096, f"{place}.slots")


def _check_counts(fabric: Fabric, source: str) -> None:
    _check_range(len(fabric.nics), 1, MAX_NODES, f"{source}: number of nics")
    switches = len(fabric.devices) - len(fabric.nics)
    if switches > 1:
        place = f"{source}: device.kind"
        raise DescriptionError(place, f"{switches} switches", "use one: trees of switches are not built")
    if fabric.netns:
        return
    for device in fabric.devices:
        if ipaddress.IPv4Address(device.address) not in LOOPBACK:
            cause = f"{device.address} is no loopback address"
            raise DescriptionError(f"{source}: device.address", cause, "use 127.x.y.z, or netns = true")


def _check_link(fabric: Fabric, link: Link, place: str) -> None:
    names = {device.name for device in fabric.devices}
    for end in link.ends:
        if end not in names:
            remedy = f"use one of {', '.join(sorted(names))}"
            raise DescriptionError(f"{place}.ends", f"there is no device {end!r}", remedy)
    if link.ends[0] == link.ends[1]:
        raise DescriptionError(f"{place}.ends", "a link from a device to itself", "name two devices")
    if fabric.switch is not None and fabric.switch.name not in link.ends:
        cause = f"{' and '.join(link.ends)} are NICs, and there is a switch"
        raise DescriptionError(f"{place}.ends", cause, "link every NIC to the switch, or leave the switch out")
    if link.rate and not RATE_PATTERN.fullmatch(link.rate):
        raise DescriptionError(f"{place}.rate", f"{link.rate!r} is not a rate", "write it as tc does: 1gbit")
    if link.rate and not fabric.netns:
        raise DescriptionError(f"{place}.rate", "loopback can not be shaped", "use netns = true (option --netns)")

"""Whether a fabric can be built as it is described; what can not is refused with its place and a remedy."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable

from fanin_tools.fabric import tree
from fanin_tools.fabric.description import KINDS, DescriptionError, Device, Fabric, Link
from fanin_wire.detection import LONGEST_DETECTION, SHORTEST_DETECTION

MAX_DEVICES = 4096
MAX_RING_NODES = 64  # bits of a node bitmap
MAX_LANES = 16  # of a device
MAX_RANKS_PER_NODE = 64  # bits of a rank bitmap
NAME_PATTERN = re.compile(r"[a-z0-9][a-z0-9-]{0,23}")
RATE_PATTERN = re.compile(r"\d+(\.\d+)?[kmg]?bit")
LOOPBACK = ipaddress.IPv4Network("127.0.0.0/8")


def check(fabric: Fabric, source: str) -> Fabric:
    """Return `fabric` if it can be built, else raise DescriptionError. source: where it was read, for the message."""
    check_name(fabric.name, f"{source}: name")
    _check_range(fabric.mtu, 1280, 65535, f"{source}: mtu")
    _check_range(fabric.lanes, 1, MAX_LANES, f"{source}: lanes")
    _check_power_of_two(fabric.lanes, 2, f"{source}: lanes")
    _check_range(fabric.detection, SHORTEST_DETECTION, LONGEST_DETECTION, f"{source}: detection")
    for index, device in enumerate(fabric.devices):
        _check_device(device, f"{source}: device[{index}]")
    for key in ("name", "address", "host", "group"):
        _check_unique([getattr(device, key) for device in fabric.devices], f"{source}: device.{key}")
    _check_counts(fabric, source)
    if not fabric.netns:
        _check_loopback(fabric, source)
    names = {device.name for device in fabric.devices}
    for index, link in enumerate(fabric.links):
        _check_link(link, names, f"{source}: link[{index}]")
        _check_rate(link, fabric.netns, f"{source}: link[{index}].rate")
    if fabric.switches:
        tree.check(fabric, source)
    return fabric


def check_name(name: str, place: str) -> None:
    """Raise DescriptionError unless `name` can be part of a path, of a namespace's name and of a TOML string."""
    if not NAME_PATTERN.fullmatch(name):
        raise DescriptionError(place, f"{name!r} is not a name", "use 1 to 24 of a-z, 0-9 and '-'")


def _check_range(value: float, low: float, high: float, place: str) -> None:
    if not low <= value <= high:
        raise DescriptionError(place, f"{value} is out of range", f"use {low} to {high}")


def _check_power_of_two(value: int, example: int, place: str) -> None:
    if value & (value - 1):
        raise DescriptionError(place, f"{value} is not a power of two", f"use for example {example}")


def _check_unique(values: Iterable[str], place: str) -> None:
    seen: set[str] = set()
    for value in filter(None, values):
        if value in seen:
            raise DescriptionError(place, f"{value!r} occurs twice", "give every device its own")
        seen.add(value)


def _check_device(device: Device, place: str) -> None:
    if device.kind not in KINDS:
        raise DescriptionError(f"{place}.kind", f"{device.kind!r} is not a kind of device", "use nic or switch")
    check_name(device.name, f"{place}.name")
    check_name(device.host, f"{place}.host")
    if device.address or device.offload:
        _check_address(device.address, f"{place}.address")
    if device.kind == "nic":
        _check_range(device.ranks, 1, MAX_RANKS_PER_NODE, f"{place}.ranks")
        if not device.offload:
            raise DescriptionError(f"{place}.offload", "a NIC that does not offload", "leave offload to switches")
    if device.group:
        _check_group(device, f"{place}.group")
    _check_range(device.slots, 2, 1 << 20, f"{place}.slots")
    _check_power_of_two(device.slots, 4096, f"{place}.slots")


def _check_address(address: str, place: str) -> None:
    try:
        ipaddress.IPv4Address(address)
    except ValueError:
        cause = f"{address!r} is not an IPv4 address"
        raise DescriptionError(place, cause, "write four numbers, as in 127.77.0.1") from None


def _check_group(device: Device, place: str) -> None:
    if device.kind == "nic" or not device.offload:
        cause = f"{device.name} has no devices below that it sends results to"
        raise DescriptionError(place, cause, "give groups to switches that offload")
    _check_address(device.group, place)
    if not ipaddress.IPv4Address(device.group).is_multicast:
        raise DescriptionError(place, f"{device.group} is no multicast address", "use one of 239.0.0.0/8")


def _check_counts(fabric: Fabric, source: str) -> None:
    place = f"{source}: number of nics"
    _check_range(len(fabric.nics), 1, MAX_DEVICES if fabric.switches else MAX_RING_NODES, place)
    _check_range(len(fabric.devices), 1, MAX_DEVICES, f"{source}: number of devices")


def _check_loopback(fabric: Fabric, source: str) -> None:
    for device in fabric.daemons:
        if ipaddress.IPv4Address(device.address) not in LOOPBACK:
            cause = f"{device.address} is no loopback address"
            raise DescriptionError(f"{source}: device.address", cause, "use 127.x.y.z, or netns = true")


def _check_link(link: Link, names: set[str], place: str) -> None:
    for end in link.ends:
        if end not in names:
            shown = sorted(names)[:8]
            remedy = f"use one of {', '.join(shown)}{' ...' if len(names) > len(shown) else ''}"
            raise DescriptionError(f"{place}.ends", f"there is no device {end!r}", remedy)
    if link.ends[0] == link.ends[1]:
        raise DescriptionError(f"{place}.ends", "a link from a device to itself", "name two devices")


def _check_rate(link: Link, netns: bool, place: str) -> None:
    if link.rate and not RATE_PATTERN.fullmatch(link.rate):
        raise DescriptionError(place, f"{link.rate!r} is not a rate", "write it as tc does: 1gbit")
    if link.rate and not netns:
        raise DescriptionError(place, "loopback can not be shaped", "use netns = true (option --netns)")

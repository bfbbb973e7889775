"""Descriptions from a few numbers: a tree of switches with NICs as leaves, or NICs in a cycle."""

import ipaddress
import itertools
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace

from fanin_tools.fabric.checks import check
from fanin_tools.fabric.description import (
    RTL,
    RTL_MTU,
    SOFTWARE,
    DescriptionError,
    Device,
    Fabric,
    Link,
    invalid_settings_of,
)
from fanin_wire.abi import MAX_CHILDREN
from fanin_wire.limits import DEFAULT_DETECTION, DEFAULT_DEVICE_SLOTS, DEFAULT_MTU, MAX_DEVICES

NETNS_PREFIX = "10.77.0"  # not seen outside the namespaces
PREVIEW_PREFIX = "127.77.0"
BLOCK = 256
HOSTS = BLOCK - 2  # addresses of a block that devices may have
LANES_OF_ONE_NODE = 2  # more have not been measured
OPTIONS = "options"  # the source of a generated description, in messages


@dataclass(frozen=True)
class Shape:
    """The options of `fanin fabric up`.

    fanout: devices below each switch, level by level from the top, the NICs last; (): one switch
    plain_leaves: the lowest switches only forward; the NICs of each form a ring
    lanes: cores of each device; None: what serves best (`default_lanes`)
    multicast: one switch over namespaces sends results to a group. With several, the bridges would carry each one's
        results to the devices of all; a description may give groups for a network that keeps them apart
    loopback_group: so does one switch on the loopback network, where it saves nothing
    switch: the model of each switch that offloads
    """

    nodes: int = 4
    ranks_per_node: int = MAX_CHILDREN
    direct: bool = False
    netns: bool = False
    rate: str = ""
    slots: int = DEFAULT_DEVICE_SLOTS
    mtu: int = DEFAULT_MTU
    lanes: int | None = None
    fanout: tuple[int, ...] = ()
    plain_leaves: bool = False
    detection: float = DEFAULT_DETECTION
    multicast: bool = True
    loopback_group: bool = False
    switch: str = SOFTWARE

    @property
    def levels(self) -> tuple[int, ...]:
        """Devices below each switch, level by level from the top."""
        return self.fanout or (self.nodes,)


@dataclass(frozen=True)
class Plan:
    """A fabric without addresses yet."""

    name: str
    shape: Shape

    def at(self, prefix: str) -> Fabric:
        """The description, with addresses from `prefix` on."""
        return make(self.name, self.shape, prefix)

    def preview(self) -> Fabric:
        """With addresses that another fabric may use; only to look at."""
        return self.at(NETNS_PREFIX if self.shape.netns else PREVIEW_PREFIX)

    def with_addresses_of(self, present: Fabric) -> Fabric:
        """With the addresses of `present`, and its lanes if the shape has none; if only one of both is in namespaces,
        with the addresses of `preview`."""
        plan = Plan(self.name, replace(self.shape, lanes=self.shape.lanes or present.lanes))
        if self.shape.netns or present.netns:
            return plan.preview()
        return plan.at(present.nics[0].address.rpartition(".")[0])


def default_lanes(nodes: int) -> int:
    """Of each device.

    Within one node two lanes move long messages up to 2.5 times as fast as one, and short messages as fast. The devices
    of several nodes on one machine use all its cores with one lane each.
    """
    return min(LANES_OF_ONE_NODE, len(os.sched_getaffinity(0))) if nodes == 1 else 1


def make(name: str, shape: Shape, prefix: str = NETNS_PREFIX) -> Fabric:
    """prefix: the first three numbers of the first address."""
    _check_shape(shape)
    with invalid_settings_of(OPTIONS):
        fabric = _make(name, shape, prefix)
    return check(fabric, OPTIONS)


def _make(name: str, shape: Shape, prefix: str) -> Fabric:
    switches = [] if shape.direct else list(_switches(shape.levels))
    nic_addresses, switch_addresses = _addresses(prefix, shape.nodes, len(switches))
    devices = [
        Device(
            kind="nic",
            name=f"nic{node}",
            host=f"host{node}",
            address=nic_addresses[node],
            ranks=shape.ranks_per_node,
            slots=shape.slots,
        )
        for node in range(shape.nodes)
    ]
    lowest = len(shape.levels) - 1
    is_rtl = shape.switch == RTL
    has_group = shape.multicast and not is_rtl and (shape.netns or shape.loopback_group) and lowest == 0
    for place, address in zip(switches, switch_addresses, strict=True):
        plain = shape.plain_leaves and len(place) == lowest
        switch = _switch_name(place)
        devices.append(
            Device(
                kind="switch",
                name=switch,
                host=switch,
                address="" if plain else address,
                slots=shape.slots,
                offload=not plain,
                model=RTL if is_rtl and not plain else SOFTWARE,
                group=_group(address) if has_group and not plain else "",
            )
        )
    ends = _cycle(shape.nodes) if shape.direct else _tree(shape.levels, switches)
    links = tuple(Link(pair, shape.rate) for pair in ends)
    lanes = shape.lanes or (1 if is_rtl else default_lanes(shape.nodes))
    mtu = RTL_MTU if is_rtl and shape.mtu == DEFAULT_MTU else shape.mtu
    return Fabric(name, tuple(devices), links, mtu, shape.netns, lanes, shape.detection)


def _check_shape(shape: Shape) -> None:
    if shape.direct and (shape.fanout or shape.plain_leaves):
        cause = "direct links and a tree of switches exclude each other"
        raise DescriptionError(OPTIONS, cause, "leave out --direct, or --fanout and --plain-leaves")
    if shape.switch not in (SOFTWARE, RTL):
        raise DescriptionError(OPTIONS, f"--switch {shape.switch!r} is not a model", f"use {SOFTWARE} or {RTL}")
    if shape.direct and shape.switch == RTL:
        raise DescriptionError(
            OPTIONS, "direct links and a switch in Verilog exclude each other", "leave out --direct, or --switch"
        )
    if shape.nodes > MAX_DEVICES:
        raise DescriptionError(OPTIONS, f"{shape.nodes} nodes are too many", f"use at most {MAX_DEVICES}")
    if any(count < 1 for count in shape.fanout):
        raise DescriptionError(OPTIONS, f"fan-out {_product(shape.fanout)}", "use numbers from 1 on, as in 2x2x2")
    if shape.fanout and math.prod(shape.fanout) != shape.nodes:
        cause = f"fan-out {_product(shape.fanout)} makes {math.prod(shape.fanout)} nodes, but --nodes is {shape.nodes}"
        raise DescriptionError(OPTIONS, cause, "leave out --nodes, or make the product equal to it")


def _product(fanout: tuple[int, ...]) -> str:
    return "x".join(map(str, fanout))


def _switches(levels: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """The top first: (1, 0) is the first switch below the second of the top."""
    for depth in range(len(levels)):
        yield from itertools.product(*(range(count) for count in levels[:depth]))


def _switch_name(place: tuple[int, ...]) -> str:
    return "-".join(["switch", *map(str, place)])


def _addresses(prefix: str, nics: int, switches: int) -> tuple[list[str], list[str]]:
    """Addresses of the NICs, from the first one up, and of the switches, from the last one down."""
    blocks = -(-(nics + switches) // HOSTS)
    places = range(blocks * HOSTS)
    return [_address(prefix, place) for place in places[:nics]], [
        _address(prefix, place) for place in places[::-1][:switches]
    ]


def _address(prefix: str, place: int) -> str:
    """The address number `place` over all blocks, without the first and the last of each block."""
    first = int(ipaddress.IPv4Address(f"{prefix}.0"))
    return str(ipaddress.IPv4Address(first + place // HOSTS * BLOCK + 1 + place % HOSTS))


def _group(address: str) -> str:
    """239 (private use, RFC 2365), then the last three numbers of the switch's address."""
    return f"239.{address.partition('.')[2]}"


def _tree(levels: tuple[int, ...], switches: list[tuple[int, ...]]) -> Iterator[tuple[str, str]]:
    """The ends of all links of a tree, the lower end first."""
    for node, place in enumerate(itertools.product(*map(range, levels))):
        yield f"nic{node}", _switch_name(place[:-1])
    for place in switches[1:]:
        yield _switch_name(place), _switch_name(place[:-1])


def _cycle(nodes: int) -> Iterator[tuple[str, str]]:
    """Two NICs need one cable, one NIC needs none."""
    cables = {1: 0, 2: 1}.get(nodes, nodes)
    for node in range(cables):
        yield f"nic{node}", f"nic{(node + 1) % nodes}"

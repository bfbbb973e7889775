"""A fabric: its devices and the links between them, and the differences of two in words.

Kinds of fabric differ in links only: a tree of switches with NICs as leaves, or NICs in a cycle. A job's route (tree,
ring or local) is chosen for each job. The types bound single settings; `checks` and `tree` check settings together.
"""

import contextlib
from collections.abc import Iterator
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from fanin_tools.errors import UsageError
from fanin_tools.quantities import counted
from fanin_wire import limits, settings
from fanin_wire.abi import MAX_CHILDREN
from fanin_wire.settings import (
    RAW_SUFFIX,
    VERBS_PREFIX,
    Detection,
    DeviceSlots,
    HostName,
    InvalidSetting,
    Lanes,
    Mtu,
    Name,
    OptionalAddress,
    OptionalMulticastAddress,
    PortName,
    Rate,
    Settings,
)

SOFTWARE: Final = "software"  # models of a switch
RTL: Final = "rtl"
RTL_MTU = 1500  # the switch in Verilog takes segments of 1 KiB
SHOWN = 4  # differences that are spelt out
ADDRESSES = ("address", "group")  # fields of a device
KINDS = {"nic": "NICs", "switch": "switches"}


class DescriptionError(UsageError):
    """Names the place in the description, the cause, and the remedy."""

    def __init__(self, place: str, cause: str, remedy: str) -> None:
        super().__init__(f"{place}: {cause}", remedy, name="BAD_DESCRIPTION")


@contextlib.contextmanager
def invalid_settings_of(source: str) -> Iterator[None]:
    """Turn InvalidSetting into DescriptionError. source: the file, or other origin of the settings."""
    try:
        yield
    except InvalidSetting as error:
        raise DescriptionError(f"{source}: {error.place}", error.cause, error.remedy) from error


class Device(Settings, frozen=True, kw_only=True):
    """A NIC or a switch.

    address: IPv4 address of its RoCEv2 port; "" for a switch that only forwards
    host: its host; with namespaces, the namespace
    ranks: number of ranks that may run on its host; 0 for a switch
    slots: segment buffers of each lane, from which jobs lease
    offload: whether it computes; a plain switch only forwards, without a daemon
    model: of a switch: "software", or "rtl", the switch in Verilog, simulated (docs/fpga.md)
    group: multicast address of its results, for all devices below; "" for none
    port: "udp", or "verbs://DEVICE" for a verbs device of its host that has its address
    rdma: where clients on other hosts find it, "rdma://DEVICE@ADDRESS:PORT"; "": nowhere
    token_file: file with the token that they must show
    """

    kind: Literal["nic", "switch"]
    name: Name
    host: Name
    address: OptionalAddress = ""
    ranks: Annotated[int, Meta(ge=0, le=MAX_CHILDREN)] = 0
    slots: DeviceSlots = limits.DEFAULT_DEVICE_SLOTS
    offload: bool = True
    model: Literal["software", "rtl"] = "software"
    group: OptionalMulticastAddress = ""
    port: PortName = "udp"
    rdma: HostName = ""
    token_file: str = ""


class Link(Settings, frozen=True):
    """A cable. Of a link between two switches, the first end is the lower one. rate: as for tc; "": unshaped."""

    ends: tuple[str, str]
    rate: Rate = ""


class Fabric(Settings, frozen=True):
    """mtu: bytes of the largest IP packet on its links. netns: each host is a network namespace. lanes: cores of every
    device, equal since all must cut messages in the same way. detection: seconds of silence after which a neighbour is
    lost."""

    name: Name
    devices: tuple[Device, ...] = msgspec.field(name="device")
    links: tuple[Link, ...] = msgspec.field(name="link", default=())
    mtu: Mtu = limits.DEFAULT_MTU
    netns: bool = False
    lanes: Lanes = 1
    detection: Detection = limits.DEFAULT_DETECTION

    @property
    def nics(self) -> tuple[Device, ...]:
        return tuple(device for device in self.devices if device.kind == "nic")

    @property
    def switches(self) -> tuple[Device, ...]:
        """In the order of the description; none on direct links."""
        return tuple(device for device in self.devices if device.kind == "switch")

    @property
    def daemons(self) -> tuple[Device, ...]:
        """The devices that compute, each in a process."""
        return tuple(device for device in self.devices if device.offload)

    @property
    def is_over_datagrams(self) -> bool:
        """Its devices exchange their packets inside datagrams of verbs devices."""
        ports = [device.port for device in self.daemons]
        return any(port.startswith(VERBS_PREFIX) and not port.endswith(RAW_SUFFIX) for port in ports)

    @property
    def path_mtu(self) -> int:
        """`mtu`, or what datagrams of verbs devices carry of it."""
        return min(self.mtu, limits.MAX_VERBS_MTU) if self.is_over_datagrams else self.mtu

    def device(self, name: str) -> Device:
        """KeyError if there is none."""
        return {device.name: device for device in self.devices}[name]


def summary(fabric: Fabric) -> str:
    """The number of devices of each kind, in words."""
    plain = sum(not switch.offload for switch in fabric.switches)
    parts = [counted(len(fabric.nics), "NIC")]
    if offloading := len(fabric.switches) - plain:
        parts.append(counted(offloading, "switch"))
    if plain:
        parts.append(counted(plain, "plain switch"))
    return ", ".join(parts) if fabric.switches else f"{parts[0]} on direct links"


def describe_differences(present: Fabric, asked: Fabric) -> str:
    """The settings in which `present` differs from `asked`, for an error."""
    found = list(dict.fromkeys(_differences(present, asked)))
    more = f", and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    return ", ".join(found[:SHOWN]) + more or "the order of its devices"


def _differences(present: Fabric, asked: Fabric) -> Iterator[str]:
    for key in ("mtu", "netns", "lanes", "detection"):
        yield from _one(key, getattr(present, key), getattr(asked, key))
    yield from _one("number of NICs", len(present.nics), len(asked.nics))
    yield from _one("number of switches", len(present.switches), len(asked.switches))
    yield from _device_differences(present, asked)
    yield from _link_differences(present, asked)


def _link_differences(present: Fabric, asked: Fabric) -> Iterator[str]:
    rates = {link.ends: link.rate or "unshaped" for link in present.links}
    others = {link.ends: link.rate or "unshaped" for link in asked.links}
    devices = {device.name for device in present.devices}
    if rates.keys() != others.keys() and devices == {device.name for device in asked.devices}:
        yield "which devices are linked"
    for ends, rate in rates.items():
        if ends in others:
            yield from _one("rate of links", rate, others[ends])


def _device_differences(present: Fabric, asked: Fabric) -> Iterator[str]:
    """Of devices in both; without addresses if only one is in namespaces. The caller removes repetitions."""
    others = {device.name: device for device in asked.devices}
    compared = [name for name in settings.fields(Device) if present.netns == asked.netns or name not in ADDRESSES]
    for device in present.devices:
        if device.name in others:
            for name in compared:
                what = f"{name} of {KINDS[device.kind]}"
                yield from _one(what, getattr(device, name), getattr(others[device.name], name))


def _one(what: str, present: object, asked: object) -> Iterator[str]:
    if present != asked:
        yield f"{what} {present} (asked: {asked})"

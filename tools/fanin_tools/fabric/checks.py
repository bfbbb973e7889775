"""Whether a fabric can be built as it is described."""

import ipaddress
from collections.abc import Iterable

from fanin_tools.fabric import simulated_switch, tree
from fanin_tools.fabric.description import SOFTWARE, DescriptionError, Device, Fabric, Link, invalid_settings_of
from fanin_wire import settings
from fanin_wire.abi import MAX_CHILDREN
from fanin_wire.limits import MAX_DEVICES
from fanin_wire.settings import RAW_SUFFIX, VERBS_PREFIX

MAX_RING_NODES = MAX_CHILDREN
LOOPBACK = ipaddress.IPv4Network("127.0.0.0/8")


def check(fabric: Fabric, source: str) -> Fabric:
    """Return `fabric` if it can be built; else raises DescriptionError. source: its file name, for messages."""
    with invalid_settings_of(source):
        settings.validate(fabric)
    for index, device in enumerate(fabric.devices):
        _check_device(device, f"{source}: device[{index}]")
    for key in ("name", "address", "host", "group"):
        _check_unique([getattr(device, key) for device in fabric.devices], f"{source}: device.{key}")
    _check_counts(fabric, source)
    _check_ports(fabric, source)
    if not fabric.netns:
        _check_loopback(fabric, source)
    names = {device.name for device in fabric.devices}
    for index, link in enumerate(fabric.links):
        _check_link(link, names, f"{source}: link[{index}]")
        if link.rate and not fabric.netns:
            place = f"{source}: link[{index}].rate"
            raise DescriptionError(place, "loopback can not be shaped", "use netns = true (option --netns)")
    if fabric.switches:
        tree.check(fabric, source)
        simulated_switch.check(fabric, source)
    return fabric


def check_name(name: str, place: str) -> None:
    """Raise DescriptionError unless `name` fits a path, a namespace's name and a TOML string."""
    try:
        settings.convert({"name": name}, FabricName)
    except settings.InvalidSetting as error:
        raise DescriptionError(place, error.cause, error.remedy) from error


class FabricName(settings.Settings, frozen=True):
    name: settings.Name


def _check_unique(values: Iterable[str], place: str) -> None:
    seen: set[str] = set()
    for value in filter(None, values):
        if value in seen:
            raise DescriptionError(place, f"{value!r} occurs twice", "give every device its own")
        seen.add(value)


def _check_device(device: Device, place: str) -> None:
    if device.offload and not device.address:
        raise DescriptionError(f"{place}.address", "missing", "add address = ...")
    if device.kind == "nic" and device.ranks < 1:
        raise DescriptionError(f"{place}.ranks", f"{device.ranks} is out of range", f"use 1 to {MAX_CHILDREN}")
    if device.kind == "nic" and not device.offload:
        raise DescriptionError(f"{place}.offload", "a NIC always offloads", "leave offload to switches")
    if device.kind == "nic" and device.model != SOFTWARE:
        raise DescriptionError(f"{place}.model", f"a NIC has no model {device.model!r}", "leave model to switches")
    if device.group and (device.kind == "nic" or not device.offload):
        cause = f"{device.name} has no devices below that it sends results to"
        raise DescriptionError(f"{place}.group", cause, "give groups to switches that offload")


def _check_counts(fabric: Fabric, source: str) -> None:
    counts = {"nics": (len(fabric.nics), MAX_DEVICES if fabric.switches else MAX_RING_NODES)}
    counts["devices"] = (len(fabric.devices), MAX_DEVICES)
    for what, (count, most) in counts.items():
        if not 1 <= count <= most:
            raise DescriptionError(f"{source}: number of {what}", f"{count} is out of range", f"use 1 to {most}")


def _check_ports(fabric: Fabric, source: str) -> None:
    """All devices must be on one network; verbs ports lack some features."""
    over_verbs = [device for device in fabric.daemons if device.port.startswith(VERBS_PREFIX)]
    if not over_verbs:
        return
    over_frames = [device for device in over_verbs if device.port.endswith(RAW_SUFFIX)]
    place, hear_nothing = f"{source}: device.port", "they would not hear each other"
    if over_frames and len(over_frames) < len(over_verbs):
        other = next(device for device in over_verbs if device not in over_frames)
        cause = f"{over_frames[0].name} has a RAW_PACKET queue pair and {other.name} a UD one: {hear_nothing}"
        raise DescriptionError(place, cause, f"give every device a port with {RAW_SUFFIX}, or none")
    others = [device for device in fabric.daemons if device not in over_verbs]
    if others and not (over_frames and fabric.netns):  # without namespaces a UDP socket is on loopback
        cause = f"{over_verbs[0].name} has a verbs device and {others[0].name} has none: {hear_nothing}"
        raise DescriptionError(place, cause, 'give every device a port = "verbs://...", or none')
    for what, asked in (
        ("netns = true", fabric.netns and not over_frames),
        (f"lanes = {fabric.lanes}", fabric.lanes > 1),
    ):
        if asked:
            raise DescriptionError(place, f"{what} is not supported over verbs", "leave it out, or use UDP")


def _check_loopback(fabric: Fabric, source: str) -> None:
    for device in fabric.daemons:
        if device.port.startswith(VERBS_PREFIX):  # it has a network interface's address
            continue
        if ipaddress.IPv4Address(device.address) not in LOOPBACK:
            cause = f"{device.address} is not a loopback address"
            raise DescriptionError(f"{source}: device.address", cause, "use 127.x.y.z, or netns = true")


def _check_link(link: Link, names: set[str], place: str) -> None:
    for end in link.ends:
        if end not in names:
            shown = sorted(names)[:8]
            remedy = f"use one of {', '.join(shown)}{' ...' if len(names) > len(shown) else ''}"
            raise DescriptionError(f"{place}.ends", f"there is no device {end!r}", remedy)
    if link.ends[0] == link.ends[1]:
        raise DescriptionError(f"{place}.ends", "the link joins a device to itself", "name two devices")

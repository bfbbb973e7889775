"""How two descriptions of a fabric differ, in words."""

from collections.abc import Iterator

from fanin_tools.fabric.description import Device, Fabric
from fanin_wire import settings

SHOWN = 4  # differences that are spelt out
ADDRESSES = ("address", "group")  # fields of a device
KINDS = {"nic": "NICs", "switch": "switches"}


def describe(present: Fabric, asked: Fabric) -> str:
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

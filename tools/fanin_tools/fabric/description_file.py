"""Descriptions as TOML: read with errors that name file, key and remedy; written so that reading gives the same."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from fanin_tools.errors import UsageError
from fanin_tools.fabric.checks import check
from fanin_tools.fabric.description import DescriptionError, Device, Fabric, Link

# Keys of each table: name -> type. Defaults are those of the dataclasses.
FABRIC_KEYS: dict[str, type] = {
    "name": str,
    "mtu": int,
    "netns": bool,
    "lanes": int,
    "detection": float,
    "device": list,
    "link": list,
}
DEVICE_KEYS: dict[str, type] = {
    "kind": str,
    "name": str,
    "address": str,
    "host": str,
    "ranks": int,
    "slots": int,
    "offload": bool,
    "group": str,
}
LINK_KEYS: dict[str, type] = {"ends": list, "rate": str}


def read(path: Path) -> Fabric:
    """The fabric described in `path`; DescriptionError says where it is wrong."""
    try:
        return parse(path.read_text(), str(path))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", "name a readable TOML file", name="NO_DESCRIPTION") from error


def parse(text: str, source: str) -> Fabric:
    """The fabric described by `text`. source: its file name, for messages."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise DescriptionError(source, str(error), "correct the TOML there") from error
    _check_keys(table, FABRIC_KEYS, ("name", "device"), source)
    devices = tuple(_device(row, f"{source}: device[{index}]") for index, row in enumerate(table["device"]))
    links = tuple(_link(row, f"{source}: link[{index}]") for index, row in enumerate(table.get("link", [])))
    scalars = {key: value for key, value in table.items() if key not in ("device", "link")}
    return check(Fabric(devices=devices, links=links, **scalars), source)


def _device(row: Any, place: str) -> Device:
    plain = isinstance(row, dict) and row.get("offload") is False
    optional = ("address",) if plain else ()
    required = [field.name for field in fields(Device) if field.default is MISSING and field.name not in optional]
    _check_keys(row, DEVICE_KEYS, required, place)
    return Device(**({"address": ""} | row))


def _link(row: Any, place: str) -> Link:
    _check_keys(row, LINK_KEYS, ("ends",), place)
    ends = row["ends"]
    if len(ends) != 2 or not all(isinstance(end, str) for end in ends):
        raise DescriptionError(f"{place}.ends", f"{ends!r} are not two ends", 'write ends = ["nic0", "switch"]')
    return Link((ends[0], ends[1]), row.get("rate", ""))


def _check_keys(table: Any, known: dict[str, type], required: Iterable[str], place: str) -> None:
    if not isinstance(table, dict):
        raise DescriptionError(place, f"{table!r} is no table", "write it as [[device]] or [[link]] with keys below it")
    for key, value in table.items():
        if key not in known:
            raise DescriptionError(f"{place}.{key}", "unknown key", f"use {', '.join(known)}")
        if type(value) is not known[key] and not (known[key] is float and type(value) is int):
            cause = f"{value!r} is {type(value).__name__}"
            raise DescriptionError(f"{place}.{key}", cause, f"give a value of type {known[key].__name__}")
    for key in required:
        if key not in table:
            raise DescriptionError(f"{place}.{key}", "missing", f"add {key} = ...")


def render(fabric: Fabric) -> str:
    """`fabric` as TOML."""
    lines = [f'name = "{fabric.name}"', f"mtu = {fabric.mtu}", f"netns = {str(fabric.netns).lower()}"]
    lines += [f"lanes = {fabric.lanes}", f"detection = {float(fabric.detection)}"]
    for device in fabric.devices:
        lines += ["", "[[device]]", *(_assignment(key, getattr(device, key)) for key in DEVICE_KEYS)]
    for link in fabric.links:
        ends = ", ".join(f'"{end}"' for end in link.ends)
        lines += ["", "[[link]]", f"ends = [{ends}]", _assignment("rate", link.rate)]
    return "\n".join(lines) + "\n"


def _assignment(key: str, value: str | int) -> str:
    # Names, addresses and rates hold no character that TOML escapes: check() sees to it.
    return f'{key} = "{value}"' if isinstance(value, str) else f"{key} = {str(value).lower()}"

"""The golden vectors of `vectors/*.toml`: literal IPv4 packets with the meaning of their fields, reviewed by hand."""

from __future__ import annotations

import functools
import tomllib
from dataclasses import dataclass
from pathlib import Path

from fanin_wire.fields import IPV4_UDP_SIZE

FOLDER = Path(__file__).with_name("vectors")

_PLAIN_KEYS = ("name", "text", "hex", "payload", "elements")


@dataclass(frozen=True)
class Vector:
    """One golden packet.

    `packet`: bytes from the IPv4 header to the ICRC. `headers`: fields by header, in wire order (IP, UDP, BTH, ...; HOP
    is a list); a field without a value is 0. `payload`: without padding. `elements`: the payload as numbers of the
    CETH's type, if it has one.
    """

    file: str
    name: str
    text: str
    packet: bytes
    headers: dict
    payload: bytes
    elements: tuple

    @property
    def datagram(self) -> bytes:
        """What a UDP receiver gets: BTH to ICRC."""
        return self.packet[IPV4_UDP_SIZE:]

    def value(self, header: str, field: str) -> int:
        """Value of a field; 0 if the vector does not name it."""
        return self.headers[header].get(field, 0)


def _number(value: object) -> object:
    """64-bit fields are hexadecimal strings in the files, because TOML's integers are signed."""
    return int(value, 16) if isinstance(value, str) and value.startswith("0x") else value


def _values(table: dict | list) -> dict | list:
    if isinstance(table, list):
        return [_values(entry) for entry in table]
    return {name: _number(value) for name, value in table.items()}


def _vector(file: str, entry: dict) -> Vector:
    return Vector(
        file=file,
        name=entry["name"],
        text=" ".join(entry["text"].split()),
        packet=bytes.fromhex("".join(entry["hex"])),
        headers={name: _values(table) for name, table in entry.items() if name not in _PLAIN_KEYS},
        payload=bytes.fromhex(entry.get("payload", "")),
        elements=tuple(entry.get("elements", ())),
    )


@functools.cache
def vectors() -> tuple[Vector, ...]:
    """All golden vectors, in the order of the files."""
    files = sorted(FOLDER.glob("*.toml"))
    return tuple(_vector(path.stem, entry) for path in files for entry in tomllib.loads(path.read_text())["vector"])


def vector(name: str) -> Vector:
    """The vector called `name`; KeyError if unknown."""
    for candidate in vectors():
        if candidate.name == name:
            return candidate
    raise KeyError(f"no golden vector is called {name}")

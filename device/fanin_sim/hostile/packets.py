"""Ordinary packets as the oracle reads them and the attacker writes them: from BTH to before the ICRC."""

from typing import NamedTuple

from fanin_wire.fields import BTH, DEFAULT_PKEY, Header
from fanin_wire.rocev2 import OPCODES, Opcode


class Packet(NamedTuple):
    """A packet with all its headers. values: their fields."""

    opcode: Opcode
    values: dict[str, int]
    payload: bytes

    def has(self, header: str) -> bool:
        return any(own.name == header for own in self.opcode.headers)


def unpack(header: Header, data: bytes) -> dict[str, int]:
    number, size = int.from_bytes(data[: header.size], "big"), header.size * 8
    return {
        field.name: (number >> (size - field.offset - field.bits)) & ((1 << field.bits) - 1) for field in header.fields
    }


def pack(header: Header, values: dict[str, int]) -> bytes:
    """A header; fields without a value are 0."""
    number = 0
    for field in header.fields:
        number = (number << field.bits) | (values.get(field.name, 0) & ((1 << field.bits) - 1))
    return number.to_bytes(header.size, "big")


def make(code: int, payload: bytes, values: dict[str, int]) -> bytes:
    """A packet with a known opcode and right padding, unless `values` say otherwise."""
    padding = -len(payload) % 4
    fields = {"opcode": code, "padcount": padding, "pkey": DEFAULT_PKEY, **values}
    headers = b"".join(pack(header, fields) for header in (BTH, *OPCODES[code].headers))
    return headers + payload + bytes(padding)


def read(data: bytes) -> Packet | str:
    """A packet, or the name of the counter of invalid ones (sections 9.6.1.1 and 9.6.1.2)."""
    if len(data) < BTH.size:
        return "drop_short"
    values = unpack(BTH, data)
    opcode = OPCODES.get(values["opcode"])
    if values["version"]:
        return "drop_version"
    if opcode is None:
        return "drop_unknown_opcode"
    size = BTH.size + sum(header.size for header in opcode.headers)
    if len(data) < size:
        return "drop_short"
    if len(data) % 4 or len(data) - size < values["padcount"]:
        return "drop_padding"
    if values["pkey"] & 0x7FFF != 0x7FFF:
        return "drop_pkey"
    place = BTH.size
    for header in opcode.headers:
        values |= unpack(header, data[place:])
        place += header.size
    return Packet(opcode, values, data[place : len(data) - values["padcount"]])

"""The content of packets for people: names in place of codes, elements in place of bytes."""

import ipaddress
from collections.abc import Iterator, Mapping
from enum import IntEnum

import numpy as np

from fanin_wire.abi import ContributorClass, DType, Op, Route, Status
from fanin_wire.arithmetic import widen
from fanin_wire.datatypes import UnsupportedDataType, datatype_by_name
from fanin_wire.fields import (
    CLASS_MASK,
    CLASS_SHIFT,
    CONFIG_ACK_BODY,
    CONFIG_BODY,
    HOP_BODY,
    WAIT_BODY,
    Flag,
    Header,
    Opcode,
)

CODES: dict[str, type[IntEnum]] = {"op": Op, "dtype": DType, "status": Status, "route": Route}
HEXADECIMAL = ("key", "token", "node_bitmap", "rank_bitmap", "mask", "boot_id", "digest_high", "digest_low")
BODIES = {Opcode.CONFIG: CONFIG_BODY, Opcode.CONFIG_ACK: CONFIG_ACK_BODY, Opcode.WAIT: WAIT_BODY}
SHOWN, SHOWN_BYTES = 8, 32  # of a payload: elements; bytes where its type is not known


def unpack(header: Header, data: bytes) -> dict[str, int]:
    number, size = int.from_bytes(data[: header.size], "big"), header.size * 8
    return {f.name: (number >> (size - f.offset - f.bits)) & ((1 << f.bits) - 1) for f in header.fields}


def field_text(name: str, value: int) -> str:
    """The value of a field of the CETH or of a body."""
    if name in CODES:
        return CODES[name](value).name if value in list(CODES[name]) else str(value)
    if name == "address":
        return str(ipaddress.IPv6Address(value).ipv4_mapped or ipaddress.IPv6Address(value))
    return hex(value) if name in HEXADECIMAL else str(value)


def ceth_text(name: str, value: int) -> str:
    return _flags_text(value) if name == "flags" else field_text(name, value)


def _flags_text(value: int) -> str:
    """The contributor class, then the flags that are set."""
    code = value >> CLASS_SHIFT & CLASS_MASK
    names = [ContributorClass(code).name if code in list(ContributorClass) else f"class {code}"]
    names += [str(flag.name) for flag in Flag if value & flag]
    rest = value & ~(CLASS_MASK << CLASS_SHIFT | sum(Flag))
    return "|".join([*names, *([hex(rest)] if rest else [])])


def payload_text(opcode: int, ceth: Mapping[str, object], payload: bytes) -> str:
    """The bytes after the CETH: the fields of a body, or the elements of a segment."""
    if opcode in BODIES:
        return " ".join(_body_texts(BODIES[Opcode(opcode)], payload))
    return elements_text(payload, _type_of(ceth))


def _body_texts(body: Header, payload: bytes) -> Iterator[str]:
    """A body, and the HOPs behind it. Bytes if it is too short or unknown."""
    headers = [body]
    while headers and len(payload) >= headers[0].size:
        header = headers.pop(0)
        values, payload = unpack(header, payload), payload[header.size :]
        yield from (f"{name}={field_text(name, value)}" for name, value in values.items() if value)
        headers += [HOP_BODY] * values.get("hops", 0)
    if payload:
        yield _bytes_text(payload)


def _type_of(ceth: Mapping[str, object]) -> str:
    """The name of the type of the elements on the wire; "" if unknown."""
    code, flags = ceth.get("dtype", 0), ceth.get("flags", 0)
    if isinstance(flags, int) and flags & Flag.WIDE:
        return "f32"
    return DType(code).name.lower() if isinstance(code, int) and code and code in list(DType) else ""


def elements(payload: bytes, dtype: str) -> np.ndarray | None:
    """The elements of a payload. dtype: as in SPEC.md. None for an unknown type, or a partial element."""
    try:
        kind = datatype_by_name(dtype)
    except UnsupportedDataType:
        return None
    if len(payload) % kind.itemsize:
        return None
    stored = np.frombuffer(payload, kind.numpy)
    return widen(stored, kind) if kind.alias else stored


def elements_text(payload: bytes, dtype: str) -> str:
    """The first elements of a payload, and their number; its bytes if it has no type."""
    found = elements(payload, dtype)
    if found is None or not payload:
        return _bytes_text(payload)
    shown = ", ".join(str(each) for each in found[:SHOWN])
    return f"[{shown}{', ...' if len(found) > SHOWN else ''}] {len(found)} {dtype}"


def _bytes_text(payload: bytes) -> str:
    more = f"... {len(payload)} bytes" if len(payload) > SHOWN_BYTES else ""
    return payload[:SHOWN_BYTES].hex() + more


def difference(seen: bytes, expected: bytes, dtype: str) -> str:
    """How two payloads of a type differ: in length, or in which element, with its bits, or byte first."""
    if len(seen) != len(expected):
        return f"has {len(seen)} bytes, not {len(expected)}"
    found, wanted = elements(seen, dtype), elements(expected, dtype)
    if found is None or wanted is None:
        at = next(number for number, pair in enumerate(zip(seen, expected, strict=True)) if pair[0] != pair[1])
        return f"byte {at} is {seen[at]:#04x}, not {expected[at]:#04x}"
    size = len(seen) // len(found)
    parts = [(seen[at : at + size], expected[at : at + size]) for at in range(0, len(seen), size)]
    wrong = [number for number, (one, other) in enumerate(parts) if one != other]
    first, bits = wrong[0], [f"0x{part[::-1].hex()}" for part in parts[wrong[0]]]
    others = f"; {len(wrong)} of {len(parts)} differ" if len(wrong) > 1 else ""
    return f"element {first} is {found[first]} ({bits[0]}), not {wanted[first]} ({bits[1]}){others}"


def payload_difference(ceth: Mapping[str, object], seen: bytes, expected: bytes) -> str:
    """As `difference`, for the payloads of a packet with this CETH."""
    return difference(seen, expected, _type_of(ceth))

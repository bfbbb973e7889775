"""Packets of ordinary traffic, dissected by the tables of `fanin_wire.rocev2`."""

import functools
from typing import NamedTuple

from fanin_conform.datagram import DONT_FRAGMENT, unpack, whole
from fanin_wire.fields import BTH, ICRC_SIZE
from fanin_wire.icrc import icrc
from fanin_wire.rocev2 import ACKNOWLEDGE_SHIFT, ACKNOWLEDGE_VALUE, OPCODES, Acknowledge, Nak

LAST_PSN = PSN_MASK = (1 << 24) - 1
IDENTIFICATION, FRAGMENT, DF = 4, 6, DONT_FRAGMENT >> 8  # bytes of the IPv4 header, and a bit
HEXADECIMAL = ("va", "rkey", "swap", "compare", "original", "immdt", "qkey", "dqpn", "sqpn", "pkey")
UNSHOWN = ("opcode", "pkey", "padcount", "syndrome", "migreq", "dqpn")


class Dissected(NamedTuple):
    """A packet. fields: of all its headers, by name; `answer` has an AETH in words."""

    name: str
    fields: dict[str, int | str]
    payload: bytes
    padding: bytes

    def __str__(self) -> str:
        told = {name: value for name, value in self.fields.items() if value and name not in UNSHOWN}
        shown = [f"{name}={as_text(name, value)}" for name, value in told.items()]
        data = f"{len(self.payload)} bytes: {self.payload[:16].hex()}" if self.payload else ""
        return " ".join([self.name, *shown, *([data] if data else [])])


def as_text(field: str, value: int | str) -> str:
    return hex(value) if field in HEXADECIMAL and isinstance(value, int) else str(value)


def answer_of(syndrome: int) -> str:
    """An AETH in words: ACK, RNR_NAK, NAK_SEQUENCE, ...; the number of an unknown syndrome."""
    kind, value = syndrome >> ACKNOWLEDGE_SHIFT, syndrome & ACKNOWLEDGE_VALUE
    if kind == Acknowledge.NAK and value in list(Nak):
        return f"NAK_{Nak(value).name}"
    return Acknowledge(kind).name if kind in (Acknowledge.ACK, Acknowledge.RNR_NAK) else f"syndrome {syndrome:#x}"


def dissect(data: bytes) -> Dissected | None:
    """A datagram, BTH to ICRC; None if it is not ordinary traffic."""
    opcode = OPCODES.get(data[0]) if data else None
    if opcode is None or len(data) < BTH.size + sum(each.size for each in opcode.headers) + ICRC_SIZE:
        return None
    fields: dict[str, int | str] = dict(unpack(BTH, data))
    at = BTH.size
    for header in opcode.headers:
        fields |= unpack(header, data[at:])
        at += header.size
    if "syndrome" in fields:
        fields["answer"] = answer_of(int(fields["syndrome"]))
    rest = data[at:-ICRC_SIZE]
    length = len(rest) - int(fields["padcount"])
    if length < 0:
        return None
    return Dissected(opcode.name, fields, rest[:length], rest[length:])


def icrc_is_right(source: str, destination: str, port: int, data: bytes) -> bool:
    """Whether a datagram ends with its ICRC, for any IP identification and DF: a socket shows neither.

    A bit changes a CRC by an amount that does not depend on the other bits.
    """
    left = _number(icrc(whole(source, destination, port, data))) ^ _number(data[-ICRC_SIZE:])
    for highest, change in _changes(len(data)):
        if left >> highest & 1:
            left ^= change
    return left == 0


@functools.lru_cache(maxsize=4096)
def _changes(size: int) -> list[tuple[int, int]]:
    """Changes of the ICRC by the unseen bits, for so many bytes: (highest bit, change), each highest bit unique."""
    found: list[tuple[int, int]] = []
    packet = bytearray(whole("0.0.0.0", "0.0.0.0", 0, bytes(size)))
    before = _number(icrc(bytes(packet)))
    for place, mask in [(IDENTIFICATION + bit // 8, 1 << bit % 8) for bit in range(16)] + [(FRAGMENT, DF)]:
        packet[place] ^= mask
        change = _number(icrc(bytes(packet))) ^ before
        packet[place] ^= mask
        for highest, other in found:
            if change >> highest & 1:
                change ^= other
        if change:
            found.append((change.bit_length() - 1, change))
    return found


def _number(data: bytes) -> int:
    return int.from_bytes(data)

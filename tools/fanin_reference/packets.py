"""Packets of the offload: the datagram from the BTH to the ICRC (sections 2 and 3)."""

import socket
import zlib
from typing import NamedTuple

from fanin_reference import spec

PORT = spec.CONSTANTS["UDP destination port"]
FIRST_SOURCE_PORT = 0xC000
OFFLOAD, LAST = min(spec.OPCODES.values()), max(spec.OPCODES.values())
VERSION = spec.CONSTANTS["CETH.version"]
HEADERS, ICRC_SIZE = spec.BTH.size + spec.CETH.size, spec.CONSTANTS["bytes of the ICRC"]
EVERY_VERSION = spec.BTH.size + 32  # bytes that mean the same in each version ([10.6-1])
SEGMENT_INDEX = spec.BTH.size + 30
NAMES = {code: name for name, code in spec.OPCODES.items()}


class Packet(NamedTuple):
    """A received packet: name of its opcode, address of the sender, CETH by field, payload or body."""

    opcode: str
    address: str
    ceth: dict[str, int]
    payload: bytes

    def __getattr__(self, field: str) -> int:
        return self.ceth[field]


class Dropped(Exception):
    """A packet is dropped; the argument is the number of the demand."""


def icrc(source: str, destination: str, port: int, data: bytes) -> bytes:
    """The ICRC of a datagram without its last four bytes. Fields that a router may change count as ones."""
    identification = data[SEGMENT_INDEX] if len(data) > SEGMENT_INDEX else 0
    length = len(data) + ICRC_SIZE + 8
    words = (0x45FF, length + 20, identification, 0x4000, 0xFF00 | 17, 0xFFFF)
    covered = b"\xff" * 8 + b"".join(word.to_bytes(2, "big") for word in words)
    covered += socket.inet_aton(source) + socket.inet_aton(destination)
    covered += b"".join(word.to_bytes(2, "big") for word in (port, PORT, length, 0xFFFF))
    return zlib.crc32(covered + data[:4] + b"\xff" + data[5:]).to_bytes(4, "little")


def parse(data: bytes, source: str, port: int, own: str, lanes: int) -> Packet:
    """Items 1 to 4 of section 5. A CONFIG of another version comes without payload.

    Raises Dropped for a packet that is not for this device.
    """
    body, trailer = data[:-ICRC_SIZE], data[-ICRC_SIZE:]
    if len(data) < ICRC_SIZE or icrc(source, own, port, body) != trailer:
        raise Dropped("5-2")
    if len(body) < spec.BTH.size:
        raise Dropped("5-3")
    bth, ceth = spec.BTH.unpack(body), spec.CETH.unpack(body[spec.BTH.size :])
    code = bth["opcode"]
    if code < OFFLOAD:
        raise Dropped("5-4")
    if code > LAST or ceth["source"] > 63:
        raise Dropped("5-5")
    packet = Packet(NAMES[code], source, ceth, body[HEADERS : HEADERS + ceth["length"]])
    if bth["version"] or len(body) < EVERY_VERSION:
        raise Dropped("5-6")
    if ceth["version"] != VERSION:
        if packet.opcode == "CONFIG" and ceth["lane"] < lanes:
            return packet._replace(payload=b"")
        raise Dropped("5-6")
    if len(body) < HEADERS:
        raise Dropped("5-6")
    if len(body) - HEADERS != ceth["length"] + bth["padcount"] or ceth["lane"] >= lanes:
        raise Dropped("5-7")
    return packet


def build(opcode: str, own: str, to: str, payload: bytes = b"", **ceth: int) -> bytes:
    """A whole datagram, from the port of its lane."""
    padding = -len(payload) % 4
    bth = {"opcode": spec.OPCODES[opcode], "padcount": padding, "pkey": spec.CONSTANTS["BTH.pkey"]}
    bth["dqpn"] = spec.CONSTANTS["BTH.dqpn"]
    body = spec.BTH.pack(bth) + spec.CETH.pack({"version": VERSION, "length": len(payload)} | ceth)
    body += payload + bytes(padding)
    return body + icrc(own, to, FIRST_SOURCE_PORT + ceth["lane"], body)

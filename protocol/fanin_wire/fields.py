"""The transport headers, one table of fields each, of which layers, records and tables are made.

A row is (name, bits). Fields follow each other without gaps, most significant bit first, as in the InfiniBand
specification; every header is a multiple of 4 bytes.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

import numpy as np


class Field(NamedTuple):
    """name, width in bits, offset in bits from the start of the header."""

    name: str
    bits: int
    offset: int


class Header(NamedTuple):
    name: str
    fields: tuple[Field, ...]

    @property
    def size(self) -> int:
        """Length in bytes."""
        return sum(field.bits for field in self.fields) // 8

    def field(self, name: str) -> Field:
        """The field called `name`; KeyError if unknown."""
        for field in self.fields:
            if field.name == name:
                return field
        raise KeyError(f"{self.name} has no field {name}")

    def byte_offset(self, name: str) -> int:
        """Offset in bytes of a byte-aligned field."""
        return self.field(name).offset // 8


def header(name: str, *rows: tuple[str, int]) -> Header:
    """A header of (name, bits) rows. ValueError unless it is a multiple of 4 bytes."""
    fields, offset = [], 0
    for field_name, bits in rows:
        fields.append(Field(field_name, bits, offset))
        offset += bits
    if offset % 32:
        raise ValueError(f"{name}: {offset} bits is not a multiple of 32")
    return Header(name, tuple(fields))


# Base transport header, InfiniBand Architecture Specification 1.4, volume 1, section 9.2.
BTH = header(
    "BTH",
    ("opcode", 8),
    ("solicited", 1),
    ("migreq", 1),
    ("padcount", 2),
    ("version", 4),
    ("pkey", 16),
    ("fecn", 1),
    ("becn", 1),
    ("resv6", 6),
    ("dqpn", 24),
    ("ackreq", 1),
    ("resv7", 7),
    ("psn", 24),
)

# Extended transport headers of the InfiniBand specification, sections 9.3.1 to 9.3.7.
RETH = header("RETH", ("va", 64), ("rkey", 32), ("dlen", 32))
DETH = header("DETH", ("qkey", 32), ("resv8", 8), ("sqpn", 24))
IMMDT = header("ImmDt", ("immdt", 32))
ATOMICETH = header("AtomicETH", ("va", 64), ("rkey", 32), ("swap", 64), ("compare", 64))
AETH = header("AETH", ("syndrome", 8), ("msn", 24))
ATOMICACKETH = header("AtomicAckETH", ("original", 64))
IETH = header("IETH", ("invalidated_rkey", 32))

# Collective extended transport header: Fanin's own, behind the BTH of every offload packet.
CETH = header(
    "CETH",
    ("version", 8),
    ("op", 8),
    ("dtype", 8),
    ("flags", 8),
    ("jid", 32),
    ("key", 32),
    ("position", 32),
    ("mid", 32),
    ("sid", 32),
    ("seg", 16),
    ("length", 16),
    ("status", 8),
    ("source", 8),
    ("segment_index", 8),
    ("lane", 8),
    ("contributions", 32),
    ("token", 32),
    ("node_bitmap", 64),
    ("rank_bitmap", 64),
)

# Body of a CONFIG, behind the CETH; `hops` HOP entries follow, the first for the receiver.
CONFIG_BODY = header(
    "CONFIG",
    ("boot_id", 64),
    ("digest_high", 64),
    ("digest_low", 64),
    ("slots", 32),
    ("window", 32),
    ("chunk", 32),
    ("route", 8),
    ("hops", 8),
    ("last_lane", 8),
    ("flags", 8),
)
HOP_BODY = header("HOP", ("address", 128), ("mask", 64), ("bit", 8), ("resv24", 24), ("resv32", 32))
CONFIG_ACK_BODY = header("CONFIG_ACK", ("slots", 32), ("window", 32))
# Body of a WAIT: which of the missing children was silent longest, and how long.
WAIT_BODY = header("WAIT", ("oldest_age_us", 32), ("oldest_child", 8), ("kind", 8), ("resv16", 16))

WIRE_VERSION = 2
UDP_PORT = 4791
FIRST_SOURCE_PORT = 0xC000  # of lane 0; the start of the range that RoCEv2 takes its source ports from
COLLECTIVE_QPN = 0xFA_0C01  # destination queue pair number of every offload packet
DEFAULT_PKEY = 0xFFFF
ICRC_SIZE = 4
IPV4_UDP_SIZE = 28
TRANSPORT_SIZE = BTH.size + CETH.size  # 68 bytes before the payload
SUPER_PACKET_SEGMENTS = 64  # the kernel's limit of one GSO send
SUPER_PACKET_BYTES = 65507  # and its limit in bytes


def super_packet_segments(chunk: int) -> int:
    """Segments of `chunk` payload bytes that fit into one super-packet."""
    return min(SUPER_PACKET_SEGMENTS, SUPER_PACKET_BYTES // (TRANSPORT_SIZE + chunk + ICRC_SIZE))


class Opcode(enum.IntEnum):
    """BTH opcodes of the offload, in the manufacturer range 0xC0 to 0xFF."""

    CONTRIBUTION = 0xC0
    RESULT = 0xC1
    PROBE = 0xC2
    NEED = 0xC3
    WAIT = 0xC4
    ACK = 0xC5
    CONFIG = 0xC6
    CONFIG_ACK = 0xC7
    LEAVE = 0xC8
    LEAVE_ACK = 0xC9
    QUERY = 0xCA
    STATUS = 0xCB
    ABORT = 0xCC
    NAK = 0xCD
    KEEPALIVE = 0xCE


FIRST_OFFLOAD_OPCODE = 0xC0


class Flag(enum.IntFlag):
    """Flags of the CETH. Bits 5 and 6 hold the contributor class."""

    HAS_DATA = 0x01
    WANTS_RESULT = 0x02
    WIDE = 0x04
    HEARS_GROUP = 0x08
    AHEAD = 0x10


CLASS_SHIFT = 5
CLASS_MASK = 3


def _native(*headers: Header) -> np.dtype:
    """Native record with a member for each field; a repeated name gets its header's as a prefix."""
    widths = {8: "u1", 16: "u2", 32: "u4", 64: "u8"}
    members, seen = [], set()
    for part in headers:
        for field in part.fields:
            name = field.name if field.name not in seen else f"{part.name.lower()}_{field.name}"
            seen.add(name)
            members.append((name, widths[min(width for width in widths if width >= field.bits)]))
    return np.dtype(members, align=True)


# The parsed headers of an offload packet, in native byte order; `version` is the BTH's, `ceth_version` the CETH's.
HEADER = _native(BTH, CETH)

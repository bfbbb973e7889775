"""Ordinary RoCEv2 traffic: opcodes with their headers, the codes of an AETH, the times of an RNR NAK.

InfiniBand Architecture Specification 1.4, volume 1: opcodes in section 9.2, syndromes in section 9.7.5.2. Devices lack
what is missing here: RD, RESYNC, ATOMIC WRITE, FLUSH.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

from fanin_wire.fields import AETH, ATOMICACKETH, ATOMICETH, DETH, IETH, IMMDT, RETH, Header


class Transport(enum.IntEnum):
    """Transport services: the upper three bits of an opcode."""

    RC = 0x00  # reliable connection
    UC = 0x20  # unreliable connection
    UD = 0x60  # unreliable datagram


class Operation(enum.IntEnum):
    SEND = 0
    WRITE = 1
    READ_REQUEST = 2
    READ_RESPONSE = 3
    ACKNOWLEDGE = 4
    ATOMIC_ACKNOWLEDGE = 5
    COMPARE_SWAP = 6
    FETCH_ADD = 7


class Part(enum.IntEnum):
    """Place of a packet in its message."""

    FIRST = 0
    MIDDLE = 1
    LAST = 2
    ONLY = 3


class Opcode(NamedTuple):
    """headers: those between BTH and payload, in order."""

    code: int
    name: str
    transport: Transport
    operation: Operation
    part: Part
    headers: tuple[Header, ...]


# By opcode without transport: (name, operation, part, headers)
_OPERATIONS: dict[int, tuple[str, Operation, Part, tuple[Header, ...]]] = {
    0x00: ("SEND_FIRST", Operation.SEND, Part.FIRST, ()),
    0x01: ("SEND_MIDDLE", Operation.SEND, Part.MIDDLE, ()),
    0x02: ("SEND_LAST", Operation.SEND, Part.LAST, ()),
    0x03: ("SEND_LAST_WITH_IMMEDIATE", Operation.SEND, Part.LAST, (IMMDT,)),
    0x04: ("SEND_ONLY", Operation.SEND, Part.ONLY, ()),
    0x05: ("SEND_ONLY_WITH_IMMEDIATE", Operation.SEND, Part.ONLY, (IMMDT,)),
    0x06: ("RDMA_WRITE_FIRST", Operation.WRITE, Part.FIRST, (RETH,)),
    0x07: ("RDMA_WRITE_MIDDLE", Operation.WRITE, Part.MIDDLE, ()),
    0x08: ("RDMA_WRITE_LAST", Operation.WRITE, Part.LAST, ()),
    0x09: ("RDMA_WRITE_LAST_WITH_IMMEDIATE", Operation.WRITE, Part.LAST, (IMMDT,)),
    0x0A: ("RDMA_WRITE_ONLY", Operation.WRITE, Part.ONLY, (RETH,)),
    0x0B: ("RDMA_WRITE_ONLY_WITH_IMMEDIATE", Operation.WRITE, Part.ONLY, (RETH, IMMDT)),
    0x0C: ("RDMA_READ_REQUEST", Operation.READ_REQUEST, Part.ONLY, (RETH,)),
    0x0D: ("RDMA_READ_RESPONSE_FIRST", Operation.READ_RESPONSE, Part.FIRST, (AETH,)),
    0x0E: ("RDMA_READ_RESPONSE_MIDDLE", Operation.READ_RESPONSE, Part.MIDDLE, ()),
    0x0F: ("RDMA_READ_RESPONSE_LAST", Operation.READ_RESPONSE, Part.LAST, (AETH,)),
    0x10: ("RDMA_READ_RESPONSE_ONLY", Operation.READ_RESPONSE, Part.ONLY, (AETH,)),
    0x11: ("ACKNOWLEDGE", Operation.ACKNOWLEDGE, Part.ONLY, (AETH,)),
    0x12: ("ATOMIC_ACKNOWLEDGE", Operation.ATOMIC_ACKNOWLEDGE, Part.ONLY, (AETH, ATOMICACKETH)),
    0x13: ("COMPARE_SWAP", Operation.COMPARE_SWAP, Part.ONLY, (ATOMICETH,)),
    0x14: ("FETCH_ADD", Operation.FETCH_ADD, Part.ONLY, (ATOMICETH,)),
    0x16: ("SEND_LAST_WITH_INVALIDATE", Operation.SEND, Part.LAST, (IETH,)),
    0x17: ("SEND_ONLY_WITH_INVALIDATE", Operation.SEND, Part.ONLY, (IETH,)),
}
_OF_UC = range(0x0C)
_OF_UD = (0x04, 0x05)


def _opcodes(transport: Transport, codes: range | tuple[int, ...] | dict, *before: Header) -> list[Opcode]:
    """The opcodes of a transport, with the headers `before` in front of their own."""
    rows = ((code, *_OPERATIONS[code]) for code in codes)
    return [
        Opcode(transport + code, f"{transport.name}_{name}", transport, operation, part, (*before, *headers))
        for code, name, operation, part, headers in rows
    ]


OPCODES: dict[int, Opcode] = {
    opcode.code: opcode
    for opcode in (
        *_opcodes(Transport.RC, _OPERATIONS),
        *_opcodes(Transport.UC, _OF_UC),
        *_opcodes(Transport.UD, _OF_UD, DETH),
    )
}
"""Of ordinary traffic, by code."""

CODES: dict[str, int] = {opcode.name: opcode.code for opcode in OPCODES.values()}
"""By name, as RC_SEND_ONLY."""

MAX_HEADERS = max(sum(header.size for header in opcode.headers) for opcode in OPCODES.values())
"""Bytes between BTH and payload, at most."""


class Acknowledge(enum.IntEnum):
    """Bits 5 and 6 of the syndrome of an AETH (section 9.7.5.2); the lower five bits are its value."""

    ACK = 0  # value: end-to-end credits
    RNR_NAK = 1  # value: index of RNR_TIMES_NS
    NAK = 3  # value: Nak


class Nak(enum.IntEnum):
    """Codes of a NAK (section 9.7.5.2)."""

    SEQUENCE = 0
    INVALID_REQUEST = 1
    REMOTE_ACCESS = 2
    REMOTE_OPERATIONAL = 3
    INVALID_RD_REQUEST = 4


ACKNOWLEDGE_SHIFT = 5
ACKNOWLEDGE_VALUE = 31
CREDITS_INVALID = 31  # an ACK of a device that does not count credits (section 9.7.7.2)


def syndrome(kind: Acknowledge, value: int) -> int:
    return kind << ACKNOWLEDGE_SHIFT | value


# Wait that an RNR NAK asks for, by its value (section 9.7.5.2), in ns
RNR_TIMES_NS = tuple(
    round(milliseconds * 1_000_000)
    for milliseconds in (
        *(655.36, 0.01, 0.02, 0.03, 0.04, 0.06, 0.08, 0.12, 0.16, 0.24, 0.32, 0.48, 0.64, 0.96, 1.28, 1.92),
        *(2.56, 3.84, 5.12, 7.68, 10.24, 15.36, 20.48, 30.72, 40.96, 61.44, 81.92, 122.88, 163.84, 245.76, 327.68),
        491.52,
    )
)
RETRIES_WITHOUT_LIMIT = 7  # of rnr_retry
MAX_RETRIES = 7
TIMEOUT_UNIT_NS = 4096  # the local ACK timeout is this times 2^timeout (section 9.7.6.1.3); 0: none
PATH_MTUS = (256, 512, 1024, 2048, 4096)
MAX_MESSAGE = 1 << 31  # bytes of a message (section 9.7.7)
PSN_BITS = 24
QPN_BITS = 24
ATOMIC_BYTES = 8  # what an atomic reads and changes
GRH_SIZE = 40  # bytes before the payload of a datagram in the memory of its receiver
RESERVED_QPNS = (0, 1, 0xFFFFFF)  # management, and multicast

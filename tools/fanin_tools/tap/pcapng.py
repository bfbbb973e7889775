"""pcapng files: the few blocks that a capture needs, each a table of fields with options behind it.

The layout is that of draft-ietf-opsawg-pcapng. All numbers are little-endian, all times nanoseconds since 1970.
"""

import struct
from collections.abc import Sequence
from typing import BinaryIO

LINKTYPE_RAW = 101  # IPv4 or IPv6 without a link header
NANOSECONDS = 9  # if_tsresol: decimal places
INBOUND, OUTBOUND = 1, 2  # of epb_flags

SECTION, INTERFACE, PACKET, STATISTICS = 0x0A0D0D0A, 1, 6, 5  # types of blocks
# Between the length of a block and its options.
FIELDS = {
    SECTION: struct.Struct("<IHHq"),  # byte order, version, length of the section
    INTERFACE: struct.Struct("<HHI"),  # link type, reserved, longest packet
    PACKET: struct.Struct("<IIIII"),  # interface, time (two halves), bytes here, bytes of the packet
    STATISTICS: struct.Struct("<III"),  # interface, time (two halves)
}
BYTE_ORDER, VERSION, UNKNOWN_LENGTH, NO_LIMIT = 0x1A2B3C4D, (1, 0), -1, 0
# Codes of options; a number means different things in different blocks.
COMMENT, USER_APPLICATION, INTERFACE_NAME, INTERFACE_RESOLUTION = 1, 4, 2, 9
PACKET_FLAGS, PACKETS_RECEIVED, PACKETS_DROPPED = 2, 4, 5

Options = Sequence[tuple[int, bytes]]


class Writer:
    """interfaces: their names; a packet has the index of one."""

    def __init__(self, file: BinaryIO, application: str, interfaces: Sequence[str]) -> None:
        self._file = file
        self._block(
            SECTION,
            FIELDS[SECTION].pack(BYTE_ORDER, *VERSION, UNKNOWN_LENGTH),
            [(USER_APPLICATION, application.encode())],
        )
        for name in interfaces:
            fields = FIELDS[INTERFACE].pack(LINKTYPE_RAW, 0, NO_LIMIT)
            self._block(
                INTERFACE, fields, [(INTERFACE_NAME, name.encode()), (INTERFACE_RESOLUTION, bytes([NANOSECONDS]))]
            )

    def packet(self, interface: int, time_ns: int, direction: int, packet: bytes, comment: str = "") -> None:
        """An IP packet. direction: INBOUND or OUTBOUND."""
        fields = FIELDS[PACKET].pack(interface, *_halves(time_ns), len(packet), len(packet))
        comments = [(COMMENT, comment.encode())] if comment else []
        self._block(PACKET, fields + _padded(packet), [*comments, (PACKET_FLAGS, struct.pack("<I", direction))])

    def statistics(self, interface: int, time_ns: int, seen: int, missed: int) -> None:
        """At the end: packets that an interface has seen, and how many of them were missed."""
        counts = [(PACKETS_RECEIVED, struct.pack("<Q", seen)), (PACKETS_DROPPED, struct.pack("<Q", missed))]
        self._block(STATISTICS, FIELDS[STATISTICS].pack(interface, *_halves(time_ns)), counts)

    def _block(self, kind: int, body: bytes, options: Options) -> None:
        body += b"".join(struct.pack("<HH", code, len(value)) + _padded(value) for code, value in options)
        body += bytes(4) if options else b""  # the end of the options
        length = struct.pack("<I", len(body) + 12)
        self._file.write(struct.pack("<I", kind) + length + body + length)


def _padded(value: bytes) -> bytes:
    return value + bytes(-len(value) % 4)


def _halves(time_ns: int) -> tuple[int, int]:
    return time_ns >> 32, time_ns & 0xFFFF_FFFF

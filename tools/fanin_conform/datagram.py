"""Datagrams between tester and device: built from scapy layers, checked and dissected by the tables of the fields."""

import ipaddress
from typing import NamedTuple

from scapy.packet import Packet

from fanin_conform.values import ceth_text, payload_text, unpack
from fanin_wire.fields import (
    BTH,
    CETH,
    CONFIG_BODY,
    FIRST_OFFLOAD_OPCODE,
    FIRST_SOURCE_PORT,
    HOP_BODY,
    ICRC_SIZE,
    TRANSPORT_SIZE,
    UDP_PORT,
    Opcode,
)
from fanin_wire.icrc import UDP_PROTOCOL, icrc

TESTER_PORT, DEVICE_PORT = UDP_PORT, FIRST_SOURCE_PORT
UDP_SIZE, IP_SIZE, DONT_FRAGMENT = 8, 20, 0x4000
SEGMENT_INDEX = BTH.size + CETH.byte_offset("segment_index")


def without_padding(config: bytes) -> bytes:
    """The body of a CONFIG without the zeros that pad it to the length of the longest packet."""
    return config[: CONFIG_BODY.size + unpack(CONFIG_BODY, config)["hops"] * HOP_BODY.size]


class Dissected(NamedTuple):
    """A packet of the offload: its headers by field, its payload without padding, and the padding."""

    opcode: int
    bth: dict[str, int]
    ceth: dict[str, int]
    payload: bytes
    padding: bytes

    def __str__(self) -> str:
        name = Opcode(self.opcode).name if self.opcode in list(Opcode) else f"opcode {self.opcode:#x}"
        shown = [
            f"{field}={ceth_text(field, value)}" for field, value in self.ceth.items() if value and field != "version"
        ]
        return " ".join([name, *shown, payload_text(self.opcode, self.ceth, self.payload)]).rstrip()


def dissect(data: bytes) -> Dissected | None:
    """A datagram, BTH to ICRC; None if it is too short for a packet of the offload."""
    if len(data) < TRANSPORT_SIZE + ICRC_SIZE:
        return None
    bth, ceth = unpack(BTH, data), unpack(CETH, data[BTH.size :])
    rest = data[TRANSPORT_SIZE:-ICRC_SIZE]
    return Dissected(bth["opcode"], bth, ceth, rest[: ceth["length"]], rest[ceth["length"] :])


def whole(source: str, destination: str, port: int, data: bytes) -> bytes:
    """The IPv4 packet of a datagram, as section 3 of SPEC.md rebuilds it; ordinary packets have identification 0."""
    is_offload = len(data) > SEGMENT_INDEX + ICRC_SIZE and data[0] >= FIRST_OFFLOAD_OPCODE
    identification = data[SEGMENT_INDEX] if is_offload else 0
    words = (0x4500, IP_SIZE + UDP_SIZE + len(data), identification, DONT_FRAGMENT, 64 << 8 | UDP_PROTOCOL, 0)
    ip = b"".join(word.to_bytes(2) for word in words)
    ip += ipaddress.IPv4Address(source).packed + ipaddress.IPv4Address(destination).packed
    udp = b"".join(word.to_bytes(2) for word in (port, UDP_PORT, UDP_SIZE + len(data), 0))
    return ip + udp + data


def with_icrc(source: str, destination: str, port: int, data: bytes) -> bytes:
    """`data` with the right ICRC in its last bytes."""
    if len(data) < BTH.size + ICRC_SIZE:
        return data
    return data[:-ICRC_SIZE] + icrc(whole(source, destination, port, data))


def icrc_is_right(source: str, destination: str, port: int, data: bytes) -> bool:
    """Whether a datagram ends with its ICRC."""
    return len(data) >= BTH.size + ICRC_SIZE and with_icrc(source, destination, port, data) == data


def with_token(source: str, destination: str, data: bytes, token: int, field: str = "token") -> bytes:
    """A datagram of the tester with another value in a field of 32 bits."""
    start = BTH.size + CETH.byte_offset(field)
    changed = data[:start] + token.to_bytes(4) + data[start + 4 :]
    return with_icrc(source, destination, TESTER_PORT, changed)


def build(packet: Packet, source: str, destination: str) -> bytes:
    """The datagram of scapy layers from the BTH on, with a right ICRC unless the BTH sets one."""
    given = packet.icrc
    packet.icrc = given or 0
    layer = packet
    while layer:  # each field has one value: scapy need not look for more
        layer.explicit = 1
        layer = layer.payload
    data = bytes(packet)
    packet.icrc = given
    return data if given is not None else with_icrc(source, destination, TESTER_PORT, data)

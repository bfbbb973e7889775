"""The invariant CRC of RoCE packets in plain Python: the oracle for every faster implementation.

InfiniBand Architecture Specification 1.4, volume 1, section 7.8.1 and annex A17 (RoCEv2): Ethernet's CRC-32 from the
network header to the end of the padding, least significant byte first. What may change on the way counts as ones:

| where | bytes that count as ones |
| --- | --- |
| before the packet | 8 bytes, in place of InfiniBand's link header |
| IPv4 | type of service, time to live, header checksum; *not* the identification, which one must know |
| IPv6, and the GRH of RoCEv1 | traffic class, flow label, hop limit |
| UDP | checksum |
| BTH | FECN, BECN and the six reserved bits beside them |
"""

from __future__ import annotations

import zlib

from fanin_wire.fields import BTH, ICRC_SIZE

UDP_PROTOCOL = 17
IBA_PROTOCOL = 0x1B  # next header of a GRH in front of a BTH (RoCEv1)
UDP_SIZE = 8
IPV6_SIZE = 40


class NotRoCE(ValueError):
    """Bytes that are not a whole RoCE packet from the IP header on; the message says why."""


def _mask_ipv4(packet: bytearray) -> tuple[int, int, int]:
    """Returns (header size, total size, protocol)."""
    packet[1] = packet[8] = 0xFF
    packet[10:12] = b"\xff\xff"
    return (packet[0] & 0x0F) * 4, int.from_bytes(packet[2:4]), packet[9]


def _mask_ipv6(packet: bytearray) -> tuple[int, int, int]:
    """Returns (header size, total size, next header)."""
    packet[0:4] = b"\x6f\xff\xff\xff"
    packet[7] = 0xFF
    return IPV6_SIZE, IPV6_SIZE + int.from_bytes(packet[4:6]), packet[6]


_MASK_OF_VERSION = {4: _mask_ipv4, 6: _mask_ipv6}


def _masked(packet: bytes) -> bytearray:
    """The packet without its ICRC, masked; raises NotRoCE."""
    masked = bytearray(packet)
    mask = _MASK_OF_VERSION.get(packet[0] >> 4) if len(packet) >= 20 else None
    if mask is None or (mask is _mask_ipv6 and len(packet) < IPV6_SIZE):
        raise NotRoCE("no IPv4 or IPv6 header")
    start, size, protocol = mask(masked)
    if protocol not in (UDP_PROTOCOL, IBA_PROTOCOL):
        raise NotRoCE(f"neither UDP nor a BTH behind the IP header, but protocol {protocol}")
    bth = start + (UDP_SIZE if protocol == UDP_PROTOCOL else 0)
    if not bth + BTH.size + ICRC_SIZE <= size <= len(packet):
        raise NotRoCE(
            f"the IP header says {size} bytes, {len(packet)} are here, {bth + BTH.size + ICRC_SIZE} are needed"
        )
    if protocol == UDP_PROTOCOL:
        masked[start + 6 : start + 8] = b"\xff\xff"
    masked[bth + BTH.byte_offset("fecn")] = 0xFF
    return masked[: size - ICRC_SIZE]


def icrc(packet: bytes) -> bytes:
    """The 4 bytes of the ICRC of `packet`, as on the wire.

    `packet` begins with the IP header and ends with 4 bytes of any value for the ICRC; bytes beyond the IP length
    (padding of short Ethernet frames) do not count. Raises NotRoCE.
    """
    return zlib.crc32(_masked(packet), zlib.crc32(b"\xff" * 8)).to_bytes(ICRC_SIZE, "little")


def verify(packet: bytes) -> bool:
    """Whether the ICRC of `packet`, which begins with the IP header, is right. Raises NotRoCE."""
    size = len(_masked(packet))
    return bytes(packet[size : size + ICRC_SIZE]) == icrc(packet)

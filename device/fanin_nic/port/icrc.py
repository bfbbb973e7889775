"""The invariant CRC of a RoCEv2 packet over IPv4 (InfiniBand Architecture Specification, Annex A17, section 17.3.3).

It covers the packet from the IP header to the end of the padding, behind 64 one bits that stand for the absent local
route header. What a router may change counts as ones: type of service, time to live, IP and UDP checksum, and the
byte of the BTH that holds FECN and BECN. The IP header is rebuilt here: a UDP socket shows it neither to the sender
nor to the receiver, but DF is set and so the identification is known.

The result is the number whose four bytes go behind the packet in little-endian order.
"""

from __future__ import annotations

import zlib

from numba import uint32, uint64

from fanin_nic.native.compiled import compiled
from fanin_nic.native.libc import stack_bytes
from fanin_nic.native.memory import copy, store_be32, store_be64, store_u8, store_u32
from fanin_nic.port.crc import START, crc_update
from fanin_wire.fields import BTH, ICRC_SIZE, IPV4_UDP_SIZE, TRANSPORT_SIZE, UDP_PORT

UDP_HEADER_SIZE = 8
BTH_SIZE = BTH.size
AFTER_ONES = ~zlib.crc32(bytes(8 * [0xFF])) & START  # the CRC register behind the absent local route header

# The headers with what does not count masked: IPv4, UDP, and the first bytes of the transport headers.
MASKED_SIZE = IPV4_UDP_SIZE + TRANSPORT_SIZE
CONGESTION_BYTE = IPV4_UDP_SIZE + BTH.byte_offset("fecn")
VERSION_AND_SERVICE = 0x45FF << 48
DONT_FRAGMENT = 0x4000
TTL_PROTOCOL_CHECKSUM = 0xFF11_FFFF << 32
UDP_CHECKSUM = 0xFFFF

# Of a packet in one piece, so much is masked in a copy: 28 + 20 bytes and all the rest but the payload, 48, are whole
# blocks of 16, which the CRC likes.
COPIED_HEAD = 20


@compiled
def _headers_state(source, destination, source_port, udp_length, identification, transport, head):
    """CRC register behind IPv4, UDP and the first `head` bytes (12 to 68) at `transport`."""
    ip_length = uint64(udp_length + (IPV4_UDP_SIZE - UDP_HEADER_SIZE))
    ports = uint64(source_port) << 48 | uint64(UDP_PORT) << 32
    masked = stack_bytes(MASKED_SIZE)
    store_be64(masked, VERSION_AND_SERVICE | ip_length << 32 | uint64(identification) << 16 | DONT_FRAGMENT)
    store_be64(masked + 8, TTL_PROTOCOL_CHECKSUM | uint64(source))
    store_be32(masked + 16, uint32(destination))
    store_be64(masked + 20, ports | uint64(udp_length) << 16 | UDP_CHECKSUM)
    copy(masked + IPV4_UDP_SIZE, transport, head)
    store_u8(masked + CONGESTION_BYTE, 0xFF)
    return crc_update(uint32(AFTER_ONES), masked, uint64(head + IPV4_UDP_SIZE))


@compiled
def header_state(source, destination, source_port, transport, transport_length, payload_length, identification):
    """CRC register behind the headers of a packet whose payload comes next. Arguments as of `packet_icrc`."""
    padding = -payload_length & 3
    udp_length = UDP_HEADER_SIZE + transport_length + payload_length + padding + ICRC_SIZE
    length = uint64(transport_length)
    return _headers_state(source, destination, source_port, uint64(udp_length), identification, transport, length)


@compiled
def final_icrc(state, padding):
    """ICRC of a packet from the register behind its payload, with so many zeros of padding."""
    zeros = stack_bytes(4)
    store_u32(zeros, 0)
    return uint32(~crc_update(state, zeros, uint64(padding)))


@compiled
def packet_icrc(source, destination, source_port, transport, transport_length, payload, payload_length, identification):
    """ICRC of the packet made of transport headers, payload, and zeros up to a multiple of 4.

    Addresses are IPv4 in host order; `transport` and `payload` are memory addresses; `transport_length` is 12 to 68,
    from the BTH on.
    """
    state = header_state(
        source, destination, source_port, transport, transport_length, payload_length, identification
    )  # fmt: skip
    return final_icrc(crc_update(state, payload, uint64(payload_length)), -payload_length & 3)


@compiled
def contiguous_icrc(source, destination, source_port, transport, length, identification):
    """ICRC of a packet whose `length` bytes, at least 12, from BTH to the end of the padding lie behind each other."""
    udp_length = UDP_HEADER_SIZE + length + ICRC_SIZE
    head = uint64(COPIED_HEAD if length >= COPIED_HEAD else BTH_SIZE)
    state = _headers_state(source, destination, source_port, uint64(udp_length), identification, transport, head)
    return uint32(~crc_update(state, transport + head, uint64(length - head)))

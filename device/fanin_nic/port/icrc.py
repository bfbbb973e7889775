"""The invariant CRC of a RoCEv2 packet over IPv4 (InfiniBand Architecture Specification, Annex A17, section 17.3.3).

It covers the packet from the IP header to the end of the padding, after 64 one bits for the absent local route header.
Fields that routers may change count as ones: type of service, time to live, IP and UDP checksum, and the byte of the
BTH with FECN and BECN. The IP header is rebuilt here, as UDP sockets show it to neither side. DF is set, so the
identification is known. The result is the number whose four bytes follow the packet in little-endian order.

The CRC of a payload that several packets carry is computed for the first packet. The others differ by what their
headers do to the register, carried over the payload in two multiplications, whatever its length. That holds within a
batch, while the payload does not change. (If it does, the receiver drops the packet and asks for it again.)
"""

import zlib

from numba import int64, uint32, uint64

from fanin_nic.native.compiled import compiled
from fanin_nic.native.libc import stack_bytes
from fanin_nic.native.memory import copy, load_u32, load_u64, store_u8, store_u32, store_u64, swapped
from fanin_nic.port.crc import HEADERS_SIZE, START, crc_behind_headers, crc_headers, crc_multiply, crc_power, crc_update
from fanin_wire.fields import BTH, ICRC_SIZE, IPV4_UDP_SIZE, TRANSPORT_SIZE, UDP_PORT

UDP_HEADER_SIZE = 8
AFTER_ONES = ~zlib.crc32(bytes(8 * [0xFF])) & START  # the CRC register behind the absent local route header

# The masked headers: IPv4, UDP, and the first bytes of the transport headers
MASKED_SIZE = IPV4_UDP_SIZE + TRANSPORT_SIZE
CONGESTION_BYTE = IPV4_UDP_SIZE + BTH.byte_offset("fecn")
VERSION_AND_SERVICE = 0x45FF << 48
DONT_FRAGMENT = 0x4000
TTL_PROTOCOL_CHECKSUM = 0xFF11_FFFF << 32
UDP_CHECKSUM = 0xFFFF
CONGESTION = 0xFF  # FECN, BECN and 6 reserved bits: the first byte of a word of memory
assert MASKED_SIZE == HEADERS_SIZE


# Headers


@compiled
def _ip_and_udp(source, destination, source_port, udp_length, identification):
    """Three and a half words of memory."""
    udp_length = uint64(udp_length)
    ip_length = udp_length + uint64(IPV4_UDP_SIZE - UDP_HEADER_SIZE)
    first = uint64(VERSION_AND_SERVICE | DONT_FRAGMENT) | ip_length << uint64(32)
    ports = uint64(source_port) << uint64(16) | uint64(UDP_PORT)
    return (
        swapped(first | uint64(identification) << uint64(16)),
        swapped(uint64(TTL_PROTOCOL_CHECKSUM) | uint64(source)),
        swapped(uint64(destination) << uint64(32) | ports),
        swapped((udp_length << uint64(16) | uint64(UDP_CHECKSUM)) << uint64(32)),
    )


@compiled
def offload_headers(source, destination, source_port, udp_length, identification, transport):
    """The CRC behind IPv4, UDP, BTH and CETH (at `transport`), for `crc_behind_headers`: (low, high)."""
    one, two, three, four = _ip_and_udp(source, destination, source_port, udp_length, identification)
    words = (
        one,
        two,
        three,
        four | uint64(load_u32(transport)) << uint64(32),
        load_u64(transport + uint64(4)) | uint64(CONGESTION),
        load_u64(transport + uint64(12)),
    )
    return crc_headers(AFTER_ONES, words, transport + uint64(20))


@compiled
def _other_headers(source, destination, source_port, udp_length, identification, transport, length):
    """CRC register behind IPv4, UDP and the first `length` bytes (12 to 67) at `transport`."""
    masked = stack_bytes(MASKED_SIZE)
    words = _ip_and_udp(source, destination, source_port, udp_length, identification)
    for i in range(len(words)):
        store_u64(masked + uint64(8 * i), words[i])
    copy(masked + uint64(IPV4_UDP_SIZE), transport, length)
    store_u8(masked + uint64(CONGESTION_BYTE), CONGESTION)
    return crc_update(uint32(AFTER_ONES), masked, length + uint64(IPV4_UDP_SIZE))


@compiled
def udp_length_of(transport_length, payload_length):
    """UDP length of a packet: UDP and transport headers, payload, padding, ICRC."""
    return UDP_HEADER_SIZE + transport_length + payload_length + (-payload_length & 3) + ICRC_SIZE


# A payload that several packets carry in turn, as a switch sends a result to each child


@compiled
def forget_payload(port):
    """Begin a new batch: earlier payloads may have changed."""
    port.crc_payload = 0


@compiled
def behind_payload(port, low, high, payload, length):
    """CRC register behind a payload, from that behind its headers."""
    if length == 0:
        return crc_behind_headers(low, high, payload, length)
    if port.crc_payload != payload or port.crc_length != length:
        port.crc_payload, port.crc_length = payload, length
        port.crc_low, port.crc_high = low, high
        port.crc_behind = crc_behind_headers(low, high, payload, length)
        return uint32(port.crc_behind)
    if port.crc_power_length != length:
        port.crc_power_length = length
        port.crc_power = crc_power(length)
    difference = crc_behind_headers(low ^ port.crc_low, high ^ port.crc_high, payload, uint64(0))
    return uint32(port.crc_behind ^ crc_multiply(difference, port.crc_power))


# Whole packets


@compiled
def final_icrc(state, padding):
    """ICRC from the register behind the payload, with `padding` zeros."""
    if padding == 0:
        return uint32(~state)
    zeros = stack_bytes(4)
    store_u32(zeros, 0)
    return uint32(~crc_update(state, zeros, uint64(padding)))


@compiled
def packet_icrc(source, destination, source_port, transport, transport_length, payload, payload_length, identification):
    """ICRC of the packet of transport headers, payload, and zeros up to a multiple of 4. Addresses are IPv4 in host
    order; `transport` and `payload` are memory addresses; `transport_length`: 12 to 68, from the BTH on."""
    size = udp_length_of(int64(transport_length), int64(payload_length))
    if transport_length == TRANSPORT_SIZE:
        low, high = offload_headers(source, destination, source_port, size, identification, transport)
        state = crc_behind_headers(low, high, payload, uint64(payload_length))
    else:
        length = uint64(transport_length)
        state = _other_headers(source, destination, source_port, size, identification, transport, length)
        state = crc_update(state, payload, uint64(payload_length))
    return final_icrc(state, -int64(payload_length) & 3)


@compiled
def contiguous_icrc(source, destination, source_port, transport, length, identification):
    """ICRC of a packet whose `length` bytes (at least 12) from BTH to padding are contiguous."""
    size, place = uint64(length) + uint64(UDP_HEADER_SIZE + ICRC_SIZE), uint64(TRANSPORT_SIZE)
    if length >= TRANSPORT_SIZE:
        low, high = offload_headers(source, destination, source_port, size, identification, transport)
        return uint32(~crc_behind_headers(low, high, transport + place, uint64(length) - place))
    state = _other_headers(source, destination, source_port, size, identification, transport, uint64(length))
    return uint32(~state)

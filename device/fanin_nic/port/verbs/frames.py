"""Ethernet frames around packets, for a port over a RAW_PACKET queue pair: IPv4 and UDP headers are made and checked
here.

From BTH to ICRC the bytes are those of a UDP socket, and so are the header fields that the ICRC covers: the kernel's
numbers of segments in the identification, and DF. The UDP checksum is 0, none, as RDMA devices send it, and is not
checked on arrival: the ICRC covers more. Record 0072 compares this with datagrams of UD queue pairs.
"""

from numba import int64, uint32, uint64

from fanin_nic.native.compiled import compiled
from fanin_nic.native.memory import fill_zero, load_be16, load_be32, load_u8, store_be16, store_be32, store_u8
from fanin_nic.port.descriptors import Drop
from fanin_wire.fields import IPV4_UDP_SIZE, UDP_PORT

ETHERNET_SIZE = 14
HEADERS_SIZE = ETHERNET_SIZE + IPV4_UDP_SIZE
MIN_FRAME = 60  # bytes without the checksum (IEEE 802.3, 3.2.8); padded with zeros

SOURCE_MAC, ETHER_TYPE = 6, 12  # offsets in a frame
VERSION, TOTAL_LENGTH, IDENTIFICATION, FRAGMENT = ETHERNET_SIZE, 16, 18, 20
TIME_TO_LIVE, PROTOCOL, CHECKSUM, SOURCE, DESTINATION = 22, 23, 24, 26, 30
SOURCE_PORT, DESTINATION_PORT, UDP_LENGTH, UDP_CHECKSUM = 34, 36, 38, 40

IPV4 = 0x0800
VERSION_AND_LENGTH = 0x45  # no options
DONT_FRAGMENT = 0x4000
FRAGMENTED = 0x3FFF  # more fragments, or not the first
UDP = 17
HOPS, HOPS_TO_GROUP = 64, 1  # as of sockets: no router forwards packets to a group
FIRST_GROUP = 0xE000_0000
GROUP_MAC, GROUP_BITS = 0x0100_5E00_0000, (1 << 23) - 1  # of all groups; the low bits are the group's (RFC 1112, 6.4)
UDP_HEADER_SIZE = 8
IPV4_SIZE = IPV4_UDP_SIZE - UDP_HEADER_SIZE

ACCEPTED = -1


@compiled
def _store_mac(place, address):
    """A number of 48 bits."""
    store_be16(place, uint32(address >> uint64(32)) & uint32(0xFFFF))
    store_be32(place + uint64(2), uint32(address & uint64(0xFFFF_FFFF)))


@compiled
def _load_mac(place):
    return uint64(load_be16(place)) << uint64(32) | uint64(load_be32(place + uint64(2)))


@compiled
def _header_checksum(frame):
    """Checksum over a frame's IP header (RFC 1071); 0 over a right one."""
    total = int64(0)
    for offset in range(ETHERNET_SIZE, SOURCE_PORT, 2):
        total += int64(load_be16(frame + uint64(offset)))
    total = (total & 0xFFFF) + (total >> 16)
    total = (total & 0xFFFF) + (total >> 16)
    return uint32(~total & 0xFFFF)


@compiled
def write_headers(frame, own, neighbour, source, destination, source_port, size, identification):
    """Write the headers of a packet of `size` bytes from BTH to ICRC in front of it, and zeros behind one too short for
    Ethernet; returns the length of the frame. own, neighbour: Ethernet addresses."""
    _store_mac(frame, neighbour)
    _store_mac(frame + uint64(SOURCE_MAC), own)
    store_be16(frame + uint64(ETHER_TYPE), uint32(IPV4))
    store_be16(frame + uint64(VERSION), uint32(VERSION_AND_LENGTH << 8))
    store_be16(frame + uint64(TOTAL_LENGTH), uint32(IPV4_UDP_SIZE + size))
    store_be16(frame + uint64(IDENTIFICATION), uint32(identification))
    store_be16(frame + uint64(FRAGMENT), uint32(DONT_FRAGMENT))
    store_u8(frame + uint64(TIME_TO_LIVE), uint32(HOPS_TO_GROUP if destination >= FIRST_GROUP else HOPS))
    store_u8(frame + uint64(PROTOCOL), uint32(UDP))
    store_be16(frame + uint64(CHECKSUM), uint32(0))
    store_be32(frame + uint64(SOURCE), uint32(source))
    store_be32(frame + uint64(DESTINATION), uint32(destination))
    store_be16(frame + uint64(CHECKSUM), _header_checksum(frame))
    store_be16(frame + uint64(SOURCE_PORT), uint32(source_port))
    store_be16(frame + uint64(DESTINATION_PORT), uint32(UDP_PORT))
    store_be16(frame + uint64(UDP_LENGTH), uint32(UDP_HEADER_SIZE + size))
    store_be16(frame + uint64(UDP_CHECKSUM), uint32(0))
    length = HEADERS_SIZE + size
    if length >= MIN_FRAME:
        return length
    fill_zero(frame + uint64(length), uint64(MIN_FRAME - length))
    return int64(MIN_FRAME)


@compiled
def _is_to(frame, mac, address):
    return _load_mac(frame) == mac and load_be32(frame + uint64(DESTINATION)) == address


@compiled
def _is_datagram(frame):
    """Whether a frame is a whole UDP datagram for the port of RoCEv2, in IPv4 without options."""
    return (
        load_be16(frame + uint64(ETHER_TYPE)) == IPV4
        and load_u8(frame + uint64(VERSION)) == VERSION_AND_LENGTH
        and load_be16(frame + uint64(FRAGMENT)) & FRAGMENTED == 0
        and load_u8(frame + uint64(PROTOCOL)) == UDP
        and _header_checksum(frame) == 0
        and load_be16(frame + uint64(DESTINATION_PORT)) == UDP_PORT
        and load_be16(frame + uint64(TOTAL_LENGTH)) == load_be16(frame + uint64(UDP_LENGTH)) + IPV4_SIZE
        and load_be16(frame + uint64(UDP_LENGTH)) >= UDP_HEADER_SIZE
    )


@compiled
def check_frame(frame, length, own, address, group):
    """ACCEPTED or why to drop a frame. own, address: this port's Ethernet and IP address; group: 0 for none."""
    if length < HEADERS_SIZE:
        return int64(Drop.RUNT)
    group_mac = uint64(GROUP_MAC) | uint64(group) & uint64(GROUP_BITS)
    is_ours = _is_to(frame, own, address) or (group != 0 and _is_to(frame, group_mac, group))
    if not is_ours or not _is_datagram(frame):
        return int64(Drop.FRAME)
    return (
        int64(Drop.RUNT) if ETHERNET_SIZE + int64(load_be16(frame + uint64(TOTAL_LENGTH))) > length else int64(ACCEPTED)
    )


@compiled
def datagram_size(frame):
    """Bytes from BTH to ICRC of an accepted frame."""
    return int64(load_be16(frame + uint64(UDP_LENGTH))) - UDP_HEADER_SIZE

"""Multicast: the socket that receives packets to a group, and the options of a socket that sends to groups.

A datagram to a group reaches every socket that has joined it: all NICs of a host, and all lanes of a NIC. A filter of
each lane (classic BPF) takes its packets before anything is copied. The kernel counts the others as dropped there.
"""

import ipaddress
import socket

from fanin_nic.port.steering import JUMP_IF_AT_LEAST, LANE, LOAD_BYTE, OPCODE, RETURN, attach
from fanin_wire import fields

SO_ATTACH_FILTER = 26  # asm-generic/socket.h; missing in Python's socket module
IP_MULTICAST_ALL = 49  # linux/in.h
JUMP_IF_EQUAL = 0x15  # linux/filter.h: BPF_JMP | BPF_JEQ | BPF_K
WHOLE = 0xFFFFFFFF
UDP_HEADER = 8  # bytes; the packet as the filter of a UDP socket sees it begins here


def join_group(udp: socket.socket, group: str, address: str, port: int, lane: int) -> None:
    """Bind a socket to `group`, on the interface of `address`, for the packets of a lane."""
    udp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    attach(udp, SO_ATTACH_FILTER, _of_lane(lane))
    udp.bind((group, port))
    udp.setsockopt(socket.IPPROTO_IP, IP_MULTICAST_ALL, 0)
    join_interface(udp, group, address)


def join_interface(udp: socket.socket, group: str, address: str) -> None:
    """Make the interface of `address` a member of `group` while the socket is open."""
    udp.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton(group) + socket.inet_aton(address))


def _of_lane(lane: int) -> tuple[tuple[int, int, int, int], ...]:
    """Filter for a lane, as (code, jump if true, jump if false, operand). Ordinary traffic belongs to lane 0."""
    return (
        (LOAD_BYTE, 0, 0, UDP_HEADER + OPCODE),
        (JUMP_IF_AT_LEAST, 0, 3 if lane else 2, fields.FIRST_OFFLOAD_OPCODE),
        (LOAD_BYTE, 0, 0, UDP_HEADER + LANE),
        (JUMP_IF_EQUAL, 0, 1, lane),
        (RETURN, 0, 0, WHOLE),
        (RETURN, 0, 0, 0),
    )


def enable_group_send(udp: socket.socket, address: str) -> None:
    """Let a socket send to groups through the interface of `address`, up to the next router."""
    on_loopback = ipaddress.IPv4Address(address).is_loopback  # this interface returns packets by itself
    udp.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(address))
    udp.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 1)
    udp.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 0 if on_loopback else 1)

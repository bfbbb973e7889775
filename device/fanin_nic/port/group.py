"""The multicast group of a device: a socket that hears it, and what a socket needs that sends to it.

A datagram to a group comes to every socket that has joined it: to all NICs of a host, and to all lanes of a NIC. Each
lane's socket takes its own, before anything is copied (classic BPF). The kernel counts the others' as dropped there.
"""

from __future__ import annotations

import ipaddress
import socket

from fanin_nic.port.steering import JUMP_IF_AT_LEAST, LANE, LOAD_BYTE, OPCODE, RETURN, attach
from fanin_wire import fields

SO_ATTACH_FILTER = 26  # asm-generic/socket.h; the socket module of Python does not name it
IP_MULTICAST_ALL = 49  # linux/in.h
JUMP_IF_EQUAL = 0x15  # linux/filter.h: BPF_JMP | BPF_JEQ | BPF_K
WHOLE = 0xFFFFFFFF
UDP_HEADER = 8  # bytes; a filter of a UDP socket sees the packet from there on


def join_group(udp: socket.socket, group: str, address: str, port: int, lane: int) -> None:
    """Bind a socket to `group`, on the interface that has `address`, for what is sent to a lane."""
    udp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    attach(udp, SO_ATTACH_FILTER, _of_lane(lane))
    udp.bind((group, port))
    udp.setsockopt(socket.IPPROTO_IP, IP_MULTICAST_ALL, 0)
    udp.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton(group) + socket.inet_aton(address))


def _of_lane(lane: int) -> tuple[tuple[int, int, int, int], ...]:
    """Code, jump if true, jump if false, operand: all of what is the lane's, nothing of the rest. Ordinary traffic is
    lane 0's."""
    return (
        (LOAD_BYTE, 0, 0, UDP_HEADER + OPCODE),
        (JUMP_IF_AT_LEAST, 0, 3 if lane else 2, fields.FIRST_OFFLOAD_OPCODE),
        (LOAD_BYTE, 0, 0, UDP_HEADER + LANE),
        (JUMP_IF_EQUAL, 0, 1, lane),
        (RETURN, 0, 0, WHOLE),
        (RETURN, 0, 0, 0),
    )


def enable_group_send(udp: socket.socket, address: str) -> None:
    """Let a socket send to groups by the interface that has `address`, not beyond the next router."""
    on_loopback = ipaddress.IPv4Address(address).is_loopback  # it returns what is sent by itself
    udp.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(address))
    udp.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 1)
    udp.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 0 if on_loopback else 1)

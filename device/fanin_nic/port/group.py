"""The multicast group of a device: a socket that hears it, and what a socket needs that sends to it.

A datagram to a group comes to every socket that has joined it: to all NICs of a host, and to all lanes of a NIC. Which
lane it is meant for is told by the source port, before it is copied (classic BPF).
"""

from __future__ import annotations

import ipaddress
import socket

from fanin_nic.port.steering import RETURN, attach

SO_ATTACH_FILTER = 26  # asm-generic/socket.h; the socket module of Python does not name it
IP_MULTICAST_ALL = 49  # linux/in.h
LOAD_HALF = 0x28  # linux/filter.h: BPF_LD | BPF_H | BPF_ABS
JUMP_IF_EQUAL = 0x15  # BPF_JMP | BPF_JEQ | BPF_K
WHOLE = 0xFFFFFFFF
UDP_SOURCE_PORT = 0  # a filter of a UDP socket sees the packet from the UDP header on


def hear(udp: socket.socket, group: str, address: str, port: int, source_port: int) -> None:
    """Bind a socket to `group`, on the interface that has `address`, for what is sent from `source_port`."""
    udp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    attach(udp, SO_ATTACH_FILTER, _from_port(source_port))
    udp.bind((group, port))
    udp.setsockopt(socket.IPPROTO_IP, IP_MULTICAST_ALL, 0)
    udp.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton(group) + socket.inet_aton(address))


def _from_port(source_port: int) -> tuple[tuple[int, int, int, int], ...]:
    """Code, jump if true, jump if false, operand: all of what comes from there, nothing of the rest."""
    return (
        (LOAD_HALF, 0, 0, UDP_SOURCE_PORT),
        (JUMP_IF_EQUAL, 0, 1, source_port),
        (RETURN, 0, 0, WHOLE),
        (RETURN, 0, 0, 0),
    )


def address_group(udp: socket.socket, address: str) -> None:
    """Let a socket send to groups by the interface that has `address`, not beyond the next router."""
    on_loopback = ipaddress.IPv4Address(address).is_loopback  # it returns what is sent by itself
    udp.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(address))
    udp.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 1)
    udp.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 0 if on_loopback else 1)

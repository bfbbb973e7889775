"""Receive steering: the kernel (classic BPF) chooses a packet's socket among those that share an address.

The sockets of a device's lanes are one SO_REUSEPORT group, in the order of their binds. A short program reads the lane
from the UDP payload, of a super-packet from its first packet: all its packets come from one lane of the sender, and so
belong to one lane.
"""

import ctypes
import socket
import struct
from collections.abc import Sequence

from fanin_wire import fields

SO_ATTACH_REUSEPORT_CBPF = 51  # asm-generic/socket.h; missing in Python's socket module

LOAD_BYTE = 0x30  # linux/filter.h: BPF_LD | BPF_B | BPF_ABS
JUMP_IF_AT_LEAST = 0x35  # BPF_JMP | BPF_JGE | BPF_K
RETURN = 0x06  # BPF_RET | BPF_K
RETURN_LOADED = 0x16  # BPF_RET | BPF_A

OPCODE = fields.BTH.byte_offset("opcode")
LANE = fields.BTH.size + fields.CETH.byte_offset("lane")

# Code, jump if true, jump if false, operand (struct sock_filter). A load beyond the packet returns 0: lane 0 counts it
# as a runt. For a lane without a socket the kernel chooses any; its port drops the packet.
PROGRAM = (
    (LOAD_BYTE, 0, 0, OPCODE),
    (JUMP_IF_AT_LEAST, 1, 0, fields.FIRST_OFFLOAD_OPCODE),
    (RETURN, 0, 0, 0),  # ordinary traffic: lane 0
    (LOAD_BYTE, 0, 0, LANE),
    (RETURN_LOADED, 0, 0, 0),
)


def share(udp: socket.socket) -> None:
    """Let `udp` share its address with other sockets. Call it before the bind; for the first socket, after it."""
    udp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)


def steer(udp: socket.socket) -> None:
    """Install the program for the group of `udp`."""
    attach(udp, SO_ATTACH_REUSEPORT_CBPF, PROGRAM)


def attach(udp: socket.socket, option: int, instructions: Sequence[tuple[int, int, int, int]]) -> None:
    """Attach a classic BPF program to a socket."""
    code = b"".join(struct.pack("=HBBI", *instruction) for instruction in instructions)
    buffer = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("@HP", len(instructions), ctypes.addressof(buffer))
    udp.setsockopt(socket.SOL_SOCKET, option, program)

"""Network interfaces of this machine: their addresses and MTUs."""

import contextlib
import fcntl
import ipaddress
import socket
import struct
from typing import NamedTuple

import numpy as np

# linux/sockios.h: SIOCGIF...
GET_ALL, GET_ADDRESS, GET_MTU, GET_HARDWARE_ADDRESS = 0x8912, 0x8915, 0x8921, 0x8927
NAME_BYTES, ENTRY_BYTES = 16, 40  # IFNAMSIZ; struct ifreq: a name, and a union
ADDRESS = NAME_BYTES + 4  # behind family and port of struct sockaddr_in
MAX_ADDRESSES = 1024
LOOPBACK = "127.0.0.1"  # its interface has every address of 127.0.0.0/8


class Interface(NamedTuple):
    """mtu: bytes of an IP packet."""

    name: str
    mtu: int


def interface_of(address: str) -> Interface | None:
    """The interface with an IPv4 address; None if there is none, or the kernel does not answer."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        names = _names_by_address(any_socket)
        is_loopback = ipaddress.IPv4Address(address).is_loopback
        name = names.get(address) or (names.get(LOOPBACK) if is_loopback else None)
        mtu = mtu_of(name) if name else None
        if name and mtu is not None:
            return Interface(name, mtu)
    return None


def mtu_of(name: str) -> int | None:
    """Bytes of the longest IP packet of an interface; None if the kernel does not answer."""
    found = ask(name, GET_MTU)
    return struct.unpack_from("i", found)[0] if found else None


def ask(name: str, request: int) -> bytes | None:
    """The kernel's answer in the union of struct ifreq for an interface; None if it refuses."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        return fcntl.ioctl(any_socket, request, struct.pack(f"{ENTRY_BYTES}s", name.encode()))[NAME_BYTES:]
    return None


def _names_by_address(any_socket: socket.socket) -> dict[str, str]:
    """Names of interfaces by IPv4 address. A label of an address ("eth0:1") begins with the name."""
    table = np.zeros(MAX_ADDRESSES * ENTRY_BYTES, np.uint8)
    answer = fcntl.ioctl(any_socket, GET_ALL, struct.pack("iP", table.nbytes, table.ctypes.data))
    entries = table[: struct.unpack_from("i", answer)[0]].reshape(-1, ENTRY_BYTES)
    return {_address(entry.tobytes()): _name(entry.tobytes()) for entry in entries}


def _address(entry: bytes) -> str:
    return socket.inet_ntoa(entry[ADDRESS : ADDRESS + 4])


def _name(entry: bytes) -> str:
    label = entry[:NAME_BYTES].split(b"\0")[0].decode()
    return label.split(":")[0]

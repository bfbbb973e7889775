"""The network interface of a verbs device, and what the kernel knows of its network: routes, and the Ethernet addresses
of neighbours."""

from __future__ import annotations

import contextlib
import fcntl
import socket
import struct
import sys
from pathlib import Path

from fanin_nic.port.verbs.opening import VerbsFailed

GET_ADDRESS, GET_HARDWARE_ADDRESS, GET_MTU = 0x8915, 0x8927, 0x8921  # linux/sockios.h: SIOCGIF...
NAME_BYTES = 16  # IFNAMSIZ; a union of 24 bytes follows in struct ifreq
KERNEL = Path("/proc/thread-self/net")  # of the network namespace of a thread, not of its process
NEIGHBOURS, ROUTES, VLANS = KERNEL / "arp", KERNEL / "route", KERNEL / "vlan"
IS_COMPLETE = 2  # linux/if_arp.h: ATF_COM
UP, GATEWAY = 1, 2  # linux/route.h: RTF_...
DEVICES = Path("/sys/class/infiniband")


def _ask(interface: str, request: int) -> bytes | None:
    """The union of the struct ifreq that the kernel fills in; None if it does not."""
    asked = struct.pack(f"{NAME_BYTES}s24x", interface.encode())
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        return fcntl.ioctl(any_socket, request, asked)[NAME_BYTES:]
    return None


def address_of(interface: str) -> str:
    """The first IPv4 address of an interface; "" if it has none."""
    found = _ask(interface, GET_ADDRESS)
    return socket.inet_ntoa(found[4:8]) if found else ""


def mac_of(interface: str) -> int:
    """The Ethernet address of an interface, a number of 48 bits. Raises VerbsFailed; frames here have no VLAN tag."""
    if (VLANS / interface).exists():
        raise VerbsFailed(f"network interface {interface} is a VLAN; use an address of the interface below it")
    found = _ask(interface, GET_HARDWARE_ADDRESS)
    if not found or not int.from_bytes(found[2:8]):
        raise VerbsFailed(f"network interface {interface} has no Ethernet address; use one that has")
    return int.from_bytes(found[2:8])


def mtu_of(interface: str) -> int:
    """Bytes of the longest IP packet. Raises VerbsFailed."""
    found = _ask(interface, GET_MTU)
    if not found:
        raise VerbsFailed(f"network interface {interface} is gone; give the verbs device one")
    return int(struct.unpack_from("i", found)[0])


def with_address(device: str, address: str) -> tuple[str, int]:
    """The interface of a verbs device whose first address this is, and the number of its port. Raises VerbsFailed."""
    for folder in sorted((DEVICES / device / "device/net").glob("*")):
        if address_of(folder.name) == address:
            return folder.name, int((folder / "dev_port").read_text()) + 1
    remedy = "give it that address, or the Fanin device that of the interface"
    raise VerbsFailed(f"verbs device {device} has no network interface with the address {address}; {remedy}")


def next_hop(interface: str, address: str) -> str:
    """The neighbour to which a packet for an address goes first: a router, or the address itself. It goes by the main
    table of routes, and by the routes over this interface alone."""
    best, hop = (-1, 0), address
    for line in ROUTES.read_text().splitlines()[1:]:
        name, *words = line.split()
        network, gateway, flags, mask = (int(words[column], 16) for column in (0, 1, 2, 6))
        metric = int(words[5])
        is_one = name == interface and flags & UP and _in_file_order(address) & mask == network
        if is_one and (mask.bit_count(), -metric) > best:
            best = mask.bit_count(), -metric
            hop = socket.inet_ntoa(gateway.to_bytes(4, sys.byteorder)) if flags & GATEWAY else address
    return hop


def _in_file_order(address: str) -> int:
    """An address as the kernel prints it there: its bytes as they stand in memory, read as one number."""
    return int.from_bytes(socket.inet_aton(address), sys.byteorder)


def neighbour(interface: str, address: str) -> int:
    """The Ethernet address that the kernel knows of a neighbour; 0: none."""
    for line in NEIGHBOURS.read_text().splitlines()[1:]:
        found, _, flags, mac, _, on = line.split()
        if (found, on) == (address, interface) and int(flags, 16) & IS_COMPLETE:
            return int(mac.replace(":", ""), 16)
    return 0

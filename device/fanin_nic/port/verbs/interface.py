"""The network interface of a verbs device, and what the kernel knows of routes and neighbours."""

import socket
import sys
from pathlib import Path

from fanin_nic.port import interfaces
from fanin_nic.port.verbs.opening import VerbsFailed

KERNEL = Path("/proc/thread-self/net")  # of the network namespace of a thread, not of its process
NEIGHBOURS, ROUTES, VLANS = KERNEL / "arp", KERNEL / "route", KERNEL / "vlan"
IS_COMPLETE = 2  # linux/if_arp.h: ATF_COM
UP, GATEWAY = 1, 2  # linux/route.h: RTF_...
DEVICES = Path("/sys/class/infiniband")


def address_of(interface: str) -> str:
    """The first one (IPv4); "" if none."""
    found = interfaces.ask(interface, interfaces.GET_ADDRESS)
    return socket.inet_ntoa(found[4:8]) if found else ""


def mac_of(interface: str) -> int:
    """The Ethernet address of an interface, 48 bits. Raises VerbsFailed; frames here have no VLAN tag."""
    if (VLANS / interface).exists():
        raise VerbsFailed(f"network interface {interface} is a VLAN; use an address of the interface below it")
    found = interfaces.ask(interface, interfaces.GET_HARDWARE_ADDRESS)
    if not found or not int.from_bytes(found[2:8]):
        raise VerbsFailed(f"network interface {interface} has no Ethernet address; use one that has")
    return int.from_bytes(found[2:8])


def mtu_of(interface: str) -> int:
    """Bytes of the longest IP packet. Raises VerbsFailed."""
    found = interfaces.mtu_of(interface)
    if found is None:
        raise VerbsFailed(f"network interface {interface} is gone; give the verbs device one")
    return found


def with_address(device: str, address: str) -> tuple[str, int]:
    """The interface of a verbs device with this first address, and its port number. Raises VerbsFailed."""
    for folder in sorted((DEVICES / device / "device/net").glob("*")):
        if address_of(folder.name) == address:
            return folder.name, int((folder / "dev_port").read_text()) + 1
    remedy = "give it that address, or use its own for the Fanin device"
    raise VerbsFailed(f"verbs device {device} has no network interface with the address {address}; {remedy}")


def next_hop(interface: str, address: str) -> str:
    """The first neighbour on the way to an address: a router, or the address itself, by the main routing table and
    routes over this interface alone."""
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
    """An address as the kernel prints it there: its bytes in memory read as a number."""
    return int.from_bytes(socket.inet_aton(address), sys.byteorder)


def neighbour(interface: str, address: str) -> int:
    """The Ethernet address that the kernel knows of a neighbour; 0: none."""
    for line in NEIGHBOURS.read_text().splitlines()[1:]:
        found, _, flags, mac, _, on = line.split()
        if (found, on) == (address, interface) and int(flags, 16) & IS_COMPLETE:
            return int(mac.replace(":", ""), 16)
    return 0

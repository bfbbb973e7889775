"""A verbs device is opened; its network interface; routes, and the Ethernet addresses of neighbours."""

import ctypes
import ipaddress
import os
import socket
import sys
from ctypes import byref
from pathlib import Path
from typing import Any

from fanin_nic.port import sockets
from fanin_nic.port.verbs.library import last_error, library

MAPPED = b"\0" * 10 + b"\xff" * 2  # an IPv4 address as GID
KERNEL = Path("/proc/thread-self/net")  # of the network namespace of a thread, not of its process
NEIGHBOURS, ROUTES, VLANS = KERNEL / "arp", KERNEL / "route", KERNEL / "vlan"
IS_COMPLETE = 2  # linux/if_arp.h: ATF_COM
UP, GATEWAY = 1, 2  # linux/route.h: RTF_...
DEVICES = Path("/sys/class/infiniband")


# The verbs device


class VerbsFailed(Exception):
    """A verbs device can not serve: cause, then remedy."""


def checked(result: Any, what: str, remedy: str = "see the cause") -> Any:
    """A pointer returned by a call. VerbsFailed if it is null."""
    if not result:
        raise VerbsFailed(f"cannot {what}: {last_error()}; {remedy}")
    return result


def zero(error: int, what: str, remedy: str = "see the cause") -> None:
    """VerbsFailed if a call has returned an error."""
    if error:
        raise VerbsFailed(f"cannot {what}: {os.strerror(abs(error))}; {remedy}")


def gid_of(address: str) -> bytes:
    """The GID of an IPv4 address."""
    return MAPPED + ipaddress.IPv4Address(address).packed


def open_device(name: str, user: str) -> int:
    """The context of a device for `user`, who is named in errors."""
    try:
        devices = library()
    except OSError as error:
        remedy = "install libibverbs (Debian: libibverbs1 and ibverbs-providers)"
        raise VerbsFailed(f"{user} needs libibverbs: {error}; {remedy}") from error
    except AttributeError as error:
        remedy = "use that of rdma-core 32 or later"
        raise VerbsFailed(f"libibverbs is too old for {user}: {error}; {remedy}") from error
    names, count = [], ctypes.c_int()
    found = devices.ibv_get_device_list(byref(count))
    for index in range(count.value if found else 0):
        names.append(devices.ibv_get_device_name(found[index]).decode())
        if names[-1] == name:
            context = devices.ibv_open_device(found[index])
            cause = last_error()
            devices.ibv_free_device_list(found)
            if not context:
                remedy = "give this user the right to /dev/infiniband"
                raise VerbsFailed(f"cannot open verbs device {name}: {cause}; {remedy}")
            return int(context)
    if found:
        devices.ibv_free_device_list(found)
    remedy = f"use one of {', '.join(names)}" if names else "load the driver of an RDMA device (rdma link lists them)"
    raise VerbsFailed(f"no verbs device is called {name}; {remedy}")


# Its network interface


def with_address(device: str, address: str) -> tuple[str, int]:
    """The interface of a verbs device with this first address, and its port number. Raises VerbsFailed."""
    for folder in sorted((DEVICES / device / "device/net").glob("*")):
        if address_of(folder.name) == address:
            return folder.name, int((folder / "dev_port").read_text()) + 1
    remedy = "give it that address, or use its own for the Fanin device"
    raise VerbsFailed(f"verbs device {device} has no network interface with the address {address}; {remedy}")


def address_of(interface: str) -> str:
    """The first one (IPv4); "" if none."""
    found = sockets.ask(interface, sockets.GET_ADDRESS)
    return socket.inet_ntoa(found[4:8]) if found else ""


def mac_of(interface: str) -> int:
    """The Ethernet address of an interface, 48 bits. Raises VerbsFailed; frames here have no VLAN tag."""
    if (VLANS / interface).exists():
        raise VerbsFailed(f"network interface {interface} is a VLAN; use an address of the interface below it")
    found = sockets.ask(interface, sockets.GET_HARDWARE_ADDRESS)
    if not found or not int.from_bytes(found[2:8]):
        raise VerbsFailed(f"network interface {interface} has no Ethernet address; use one that has")
    return int.from_bytes(found[2:8])


def mtu_of(interface: str) -> int:
    """Bytes of the longest IP packet. Raises VerbsFailed."""
    found = sockets.mtu_of(interface)
    if found is None:
        raise VerbsFailed(f"network interface {interface} is gone; give the verbs device one")
    return found


# Neighbours


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

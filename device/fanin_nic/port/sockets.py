"""The port over sockets, as an object of Python."""

from __future__ import annotations

import contextlib
import errno
import functools
import ipaddress
import logging
import os
import socket
import struct

import numpy as np

from fanin_nic.port.group import enable_group_send, join_group
from fanin_nic.port.port import Port, PortError
from fanin_nic.port.steering import share, steer
from fanin_nic.port.tables import UDP_GRO, PortTables
from fanin_wire.fields import FIRST_SOURCE_PORT, UDP_PORT

IP_MTU_DISCOVER = 10  # linux/in.h; missing in Python's socket module
IP_PMTUDISC_DO = 2
SO_SNDBUFFORCE = 32
SO_RCVBUFFORCE = 33
SO_MEMINFO = 55
SK_MEMINFO_DROPS = 8  # linux/sock_diag.h: index of the socket's drops

LANES = 64
SMALLEST_MTU, LARGEST_MTU = 576, 65535
DEFAULT_RECEIVE_BUFFER = 32 << 20  # 8 children with 128 segments of 4 KiB in flight, and twice the kernel's overhead
SEND_BUFFER = 8 << 20
UNUSED_BUFFER = 4096

log = logging.getLogger(__name__)

REMEDIES = {
    errno.EADDRNOTAVAIL: "give the device an address of this machine; every 127.x.y.z is one",
    errno.EACCES: "it is the broadcast address of a network; give the device an address of this machine",
    errno.EADDRINUSE: "stop the device that has this address, or choose another address",
    errno.ENOPROTOOPT: "use Linux 5.0 or later, which has UDP_GRO",
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
}


@contextlib.contextmanager
def _explained(action: str):
    try:
        yield
    except OSError as error:
        remedy = REMEDIES.get(error.errno or 0, "see the cause")
        raise PortError(f"cannot {action}: {os.strerror(error.errno or 0)}; {remedy}") from error


def _ipv4(address: str) -> int:
    try:
        return int(ipaddress.IPv4Address(address))
    except ipaddress.AddressValueError as error:
        raise PortError(f"{address!r} is not an IPv4 address ({error}); give it as four numbers, 127.0.1.1") from error


def _check_range(name: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise PortError(f"{name} {value} is out of range; choose {least} to {most}")


def set_buffer(udp: socket.socket, forced: int, limited: int, size: int) -> int:
    """Request a buffer beyond the system's limit, else up to it; returns the bytes granted, in units of `size`."""
    try:
        udp.setsockopt(socket.SOL_SOCKET, forced, size)
    except PermissionError:
        udp.setsockopt(socket.SOL_SOCKET, limited, size)
    return udp.getsockopt(socket.SOL_SOCKET, limited) // 2  # the kernel doubles it for its own overhead


@functools.cache
def _warn_of_uncounted() -> None:
    log.warning("this system does not report drops of receive buffers (SO_MEMINFO): drop_receive_buffer stays 0")


def dropped_at(udp: socket.socket) -> int:
    """Packets for which a socket's receive buffer had no room. 0, with one warning in a process, if the system returns
    less than the kernel: qemu-user answers with 4 bytes."""
    size, place = 4 * (SK_MEMINFO_DROPS + 1), 4 * SK_MEMINFO_DROPS
    memory = udp.getsockopt(socket.SOL_SOCKET, SO_MEMINFO, size)
    if len(memory) < size:
        _warn_of_uncounted()
        return 0
    return struct.unpack_from("I", memory, place)[0]


def _bound_socket(address: str, port: int, *, joins: bool = False) -> socket.socket:
    """joins: other lanes have sockets at this UDP port."""
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    try:
        with _explained(f"open UDP port {port} of {address}"):
            if joins:
                share(udp)
            udp.bind((address, port))
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer:
                peer.connect((address, port))  # a broadcast address can be bound, but not reached
    except PortError:
        udp.close()
        raise
    return udp


def _group_socket(address: str, group: str, lane: int) -> socket.socket | None:
    """The socket of a multicast group; None if joining fails: its packets then come to the port itself."""
    if not ipaddress.IPv4Address(_ipv4(group)).is_multicast:
        raise PortError(f"{group} is not a multicast address; choose one of 239.0.0.0/8, which is for private use")
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    try:
        join_group(udp, group, address, UDP_PORT, lane)
    except OSError as error:
        log.warning("%s goes on without the multicast group %s, which it can not join: %s", address, group, error)
        udp.close()
        return None
    return udp


class UdpPort(Port):
    """A RoCEv2 port on UDP: receives at (address, 4791), sends from (address, 0xC000 + lane).

    joins: another lane's port is open at the address (`open_udp_ports`). group: multicast address to receive as well;
    sending to groups needs nothing. Raises PortError: an argument is out of range, or a socket can not be opened.
    """

    def __init__(
        self,
        address: str,
        mtu: int = 9000,
        lane: int = 0,
        receive_buffer: int | None = None,
        *,
        joins: bool = False,
        group: str | None = None,
    ) -> None:
        host = _ipv4(address)
        _check_range("MTU", mtu, SMALLEST_MTU, LARGEST_MTU)
        _check_range("lane", lane, 0, LANES - 1)
        self.address, self.mtu, self.lane, self._is_alone = address, mtu, lane, not joins
        source_port = FIRST_SOURCE_PORT + lane
        with contextlib.ExitStack() as opened:
            self._receiver = opened.enter_context(_bound_socket(address, UDP_PORT, joins=joins))
            self._sender = opened.enter_context(_bound_socket(address, source_port))
            self._group_receiver = _group_socket(address, group, lane) if group else None
            if self._group_receiver:
                opened.enter_context(self._group_receiver)
            self._configure(receive_buffer or DEFAULT_RECEIVE_BUFFER)
            opened.pop_all()
        self._tables = PortTables()
        port = self._tables.port
        port["address"], port["source_port"], port["lane"], port["mtu"] = host, source_port, lane, mtu
        port["receive_fd"], port["send_fd"] = self._receiver.fileno(), self._sender.fileno()
        port["group"], port["group_fd"] = _ipv4(group) if group else 0, self.group_fd
        self.state = np.uint64(port.ctypes.data)

    def _configure(self, receive_buffer: int) -> None:
        with _explained(f"set the socket options of {self.address}"):
            for receiver in self._receivers:
                receiver.setsockopt(socket.IPPROTO_UDP, UDP_GRO, 1)
                self.receive_buffer_bytes = set_buffer(receiver, SO_RCVBUFFORCE, socket.SO_RCVBUF, receive_buffer)
            # DF: the kernel then sends identification 0, which the ICRC covers
            self._sender.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO)
            enable_group_send(self._sender, self.address)
            set_buffer(self._sender, SO_SNDBUFFORCE, socket.SO_SNDBUF, SEND_BUFFER)
            # Not read; what strangers send here must not cost memory
            self._sender.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, UNUSED_BUFFER)

    def admit_others(self) -> None:
        """Let ports of other lanes join. The address was bound alone first, so no other device has it."""
        share(self._receiver)
        self._is_alone = False

    def steer(self) -> None:
        """Deliver packets to the sockets of their lanes from now on."""
        with _explained(f"steer packets to the lanes of {self.address}"):
            steer(self._receiver)

    @property
    def receive_fd(self) -> int:
        """Descriptor to poll for packets."""
        return self._receiver.fileno()

    @property
    def group_fd(self) -> int:
        """Descriptor to poll for packets to the group; -1 without a group."""
        return self._group_receiver.fileno() if self._group_receiver else -1

    @property
    def _receivers(self) -> tuple[socket.socket, ...]:
        return (self._receiver, self._group_receiver) if self._group_receiver else (self._receiver,)

    def _dropped_by_kernel(self) -> int:
        """Packets (super-packets count as one) without room in the receive buffer. Packets to a group count only in a
        device of one lane, because the kernel counts those of other lanes among them."""
        receivers = self._receivers if self._is_alone else (self._receiver,)
        return sum(map(dropped_at, receivers))

    def close(self) -> None:
        """`state` must not be used any more."""
        for opened in (*self._receivers, self._sender):
            opened.close()

    def __enter__(self) -> UdpPort:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def open_udp_ports(
    address: str, mtu: int, lanes: int, receive_buffer: int | None = None, group: str | None = None
) -> list[UdpPort]:
    """The ports of a device's `lanes` at one address, each with `receive_buffer` bytes and in the multicast `group`, if
    any. Raises PortError."""
    with contextlib.ExitStack() as opened:
        ports = [opened.enter_context(UdpPort(address, mtu, receive_buffer=receive_buffer, group=group))]
        if lanes > 1:
            ports[0].admit_others()
            for lane in range(1, lanes):
                another = UdpPort(address, mtu, lane, receive_buffer, joins=True, group=group)
                ports.append(opened.enter_context(another))
            ports[0].steer()
        opened.pop_all()
    return ports

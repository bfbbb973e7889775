"""The port over UDP sockets: network interfaces, steering to lanes, multicast groups, and the port itself.

The sockets of a device's lanes are one SO_REUSEPORT group, in the order of their binds. A short program (classic BPF)
reads the lane from the UDP payload, of a super-packet from its first packet: all its packets come from one lane of the
sender, and so belong to one lane.

A datagram to a group reaches every socket that has joined it: all NICs of a host, and all lanes of a NIC. A filter of
each lane takes its packets before anything is copied. The kernel counts the others as dropped there.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import functools
import ipaddress
import logging
import os
import socket
import struct
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fanin_nic.port.port import Port, PortError
from fanin_nic.port.tables import UDP_GRO, PortTables
from fanin_wire import fields
from fanin_wire.fields import FIRST_SOURCE_PORT, UDP_PORT

log = logging.getLogger(__name__)
MAX_LANES = 64
MIN_MTU, MAX_MTU = 576, 65535
DEFAULT_RECEIVE_BUFFER = 32 << 20  # 8 children with 128 segments of 4 KiB in flight, and twice the kernel's overhead
SEND_BUFFER = 8 << 20
UNUSED_BUFFER = 4096
REMEDIES = {
    errno.EADDRNOTAVAIL: "give the device an address of this machine; every 127.x.y.z is one",
    errno.EACCES: "it is the broadcast address of a network; give the device an address of this machine",
    errno.EADDRINUSE: "stop the device that has this address, or choose another address",
    errno.ENOPROTOOPT: "use Linux 5.0 or later, which has UDP_GRO",
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
}
# linux/sockios.h: SIOCGIF...
GET_ALL, GET_ADDRESS, GET_MTU, GET_HARDWARE_ADDRESS = 0x8912, 0x8915, 0x8921, 0x8927
NAME_BYTES, ENTRY_BYTES = 16, 40  # IFNAMSIZ; struct ifreq: a name, and a union
ENTRY_ADDRESS = NAME_BYTES + 4  # behind family and port of struct sockaddr_in
MAX_ADDRESSES = 1024
LOOPBACK = "127.0.0.1"  # its interface has every address of 127.0.0.0/8
IP_MTU_DISCOVER = 10  # linux/in.h; these are missing in Python's socket module
IP_PMTUDISC_DO = 2
IP_MULTICAST_ALL = 49
SO_ATTACH_FILTER = 26  # asm-generic/socket.h
SO_SNDBUFFORCE = 32
SO_RCVBUFFORCE = 33
SO_ATTACH_REUSEPORT_CBPF = 51
SO_MEMINFO = 55
SK_MEMINFO_DROPS = 8  # linux/sock_diag.h: index of the socket's drops
LOAD_BYTE = 0x30  # linux/filter.h: BPF_LD | BPF_B | BPF_ABS
JUMP_IF_EQUAL = 0x15  # BPF_JMP | BPF_JEQ | BPF_K
JUMP_IF_AT_LEAST = 0x35  # BPF_JMP | BPF_JGE | BPF_K
RETURN = 0x06  # BPF_RET | BPF_K
RETURN_LOADED = 0x16  # BPF_RET | BPF_A
OPCODE_BYTE = fields.BTH.byte_offset("opcode")
LANE_BYTE = fields.BTH.size + fields.CETH.byte_offset("lane")
UDP_HEADER = 8  # bytes; the packet as the filter of a UDP socket sees it begins here
WHOLE_PACKET = 0xFFFFFFFF
# Code, jump if true, jump if false, operand (struct sock_filter). A load beyond the packet returns 0: lane 0 counts it
# as a runt. For a lane without a socket the kernel chooses any; its port drops the packet.
STEERING = (
    (LOAD_BYTE, 0, 0, OPCODE_BYTE),
    (JUMP_IF_AT_LEAST, 1, 0, fields.FIRST_OFFLOAD_OPCODE),
    (RETURN, 0, 0, 0),  # ordinary traffic: lane 0
    (LOAD_BYTE, 0, 0, LANE_BYTE),
    (RETURN_LOADED, 0, 0, 0),
)


# Network interfaces of this machine


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
    return {_address_in(entry.tobytes()): _name_in(entry.tobytes()) for entry in entries}


def _address_in(entry: bytes) -> str:
    return socket.inet_ntoa(entry[ENTRY_ADDRESS : ENTRY_ADDRESS + 4])


def _name_in(entry: bytes) -> str:
    label = entry[:NAME_BYTES].split(b"\0")[0].decode()
    return label.split(":")[0]


# Steering to lanes


def _share(udp: socket.socket) -> None:
    """Let `udp` share its address with other sockets. Call it before the bind; for the first socket, after it."""
    udp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)


def _steer(udp: socket.socket) -> None:
    """Install the program for the group of `udp`."""
    _attach(udp, SO_ATTACH_REUSEPORT_CBPF, STEERING)


def _attach(udp: socket.socket, option: int, instructions: Sequence[tuple[int, int, int, int]]) -> None:
    """Attach a classic BPF program to a socket."""
    code = b"".join(struct.pack("=HBBI", *instruction) for instruction in instructions)
    buffer = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("@HP", len(instructions), ctypes.addressof(buffer))
    udp.setsockopt(socket.SOL_SOCKET, option, program)


# Multicast groups


def join_group(udp: socket.socket, group: str, address: str, port: int, lane: int) -> None:
    """Bind a socket to `group`, on the interface of `address`, for the packets of a lane."""
    udp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    _attach(udp, SO_ATTACH_FILTER, _filter_of(lane))
    udp.bind((group, port))
    udp.setsockopt(socket.IPPROTO_IP, IP_MULTICAST_ALL, 0)
    join_interface(udp, group, address)


def join_interface(udp: socket.socket, group: str, address: str) -> None:
    """Make the interface of `address` a member of `group` while the socket is open."""
    udp.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton(group) + socket.inet_aton(address))


def _filter_of(lane: int) -> tuple[tuple[int, int, int, int], ...]:
    """Filter for a lane, as (code, jump if true, jump if false, operand). Ordinary traffic belongs to lane 0."""
    return (
        (LOAD_BYTE, 0, 0, UDP_HEADER + OPCODE_BYTE),
        (JUMP_IF_AT_LEAST, 0, 3 if lane else 2, fields.FIRST_OFFLOAD_OPCODE),
        (LOAD_BYTE, 0, 0, UDP_HEADER + LANE_BYTE),
        (JUMP_IF_EQUAL, 0, 1, lane),
        (RETURN, 0, 0, WHOLE_PACKET),
        (RETURN, 0, 0, 0),
    )


def enable_group_send(udp: socket.socket, address: str) -> None:
    """Let a socket send to groups through the interface of `address`, up to the next router."""
    on_loopback = ipaddress.IPv4Address(address).is_loopback  # this interface returns packets by itself
    udp.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(address))
    udp.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 1)
    udp.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 0 if on_loopback else 1)


# The port


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
        _check_range("MTU", mtu, MIN_MTU, MAX_MTU)
        _check_range("lane", lane, 0, MAX_LANES - 1)
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
        _share(self._receiver)
        self._is_alone = False

    def steer(self) -> None:
        """Deliver packets to the sockets of their lanes from now on."""
        with _explained(f"steer packets to the lanes of {self.address}"):
            _steer(self._receiver)

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


def _bound_socket(address: str, port: int, *, joins: bool = False) -> socket.socket:
    """joins: other lanes have sockets at this UDP port."""
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    try:
        with _explained(f"open UDP port {port} of {address}"):
            if joins:
                _share(udp)
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


def set_buffer(udp: socket.socket, forced: int, limited: int, size: int) -> int:
    """Request a buffer beyond the system's limit, else up to it; returns the bytes granted, in units of `size`."""
    try:
        udp.setsockopt(socket.SOL_SOCKET, forced, size)
    except PermissionError:
        udp.setsockopt(socket.SOL_SOCKET, limited, size)
    return udp.getsockopt(socket.SOL_SOCKET, limited) // 2  # the kernel doubles it for its own overhead


def dropped_at(udp: socket.socket) -> int:
    """Packets for which a socket's receive buffer had no room. 0, with one warning in a process, if the system returns
    less than the kernel: qemu-user answers with 4 bytes."""
    size, place = 4 * (SK_MEMINFO_DROPS + 1), 4 * SK_MEMINFO_DROPS
    memory = udp.getsockopt(socket.SOL_SOCKET, SO_MEMINFO, size)
    if len(memory) < size:
        _warn_of_uncounted()
        return 0
    return struct.unpack_from("I", memory, place)[0]


@functools.cache
def _warn_of_uncounted() -> None:
    log.warning("this system does not report drops of receive buffers (SO_MEMINFO): drop_receive_buffer stays 0")


def _ipv4(address: str) -> int:
    try:
        return int(ipaddress.IPv4Address(address))
    except ipaddress.AddressValueError as error:
        raise PortError(f"{address!r} is not an IPv4 address ({error}); give it as four numbers, 127.0.1.1") from error


def _check_range(name: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise PortError(f"{name} {value} is out of range; choose {least} to {most}")


@contextlib.contextmanager
def _explained(action: str):
    try:
        yield
    except OSError as error:
        remedy = REMEDIES.get(error.errno or 0, "see the cause")
        raise PortError(f"cannot {action}: {os.strerror(error.errno or 0)}; {remedy}") from error

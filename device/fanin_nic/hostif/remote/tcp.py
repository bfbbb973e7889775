"""The control connections of clients over RDMA: TCP, each message after its length (4 bytes, little-endian)."""

import errno
import math
import socket
import struct
from typing import NamedTuple

from fanin_nic.hostif.listener import Acceptor
from fanin_wire.settings import RDMA_PREFIX

LENGTH = struct.Struct("<I")
BACKLOG = 64
SEND_BUFFER = 1 << 20  # a whole status fits
PROBES = 3  # of a silent peer


class HostAddress(NamedTuple):
    """A verbs device, and the TCP address at which clients ask for its queue pair: rdma://DEVICE@ADDRESS:PORT."""

    device: str
    address: str
    port: int


def parse_address(text: str) -> HostAddress:
    """The address in a checked setting."""
    device, _, place = text.removeprefix(RDMA_PREFIX).partition("@")
    address, _, port = place.partition(":")
    return HostAddress(device, address, int(port))


class TcpListener(Acceptor):
    """Listens at an address. Raises AddressInUse."""

    def __init__(self, place: HostAddress, detection: float) -> None:
        self._detection = detection
        listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind((place.address, place.port))
            listening.listen(BACKLOG)
        except OSError as error:
            listening.close()
            cause = f"cannot listen at {place.address}:{place.port}: {error.strerror}"
            raise AddressInUse(f"{cause}; use an address of this host, and a port that is free") from error
        super().__init__(listening)

    def accept(self) -> socket.socket | None:
        """A silent host ends the connection."""
        connection = super().accept()
        if connection is not None:
            _watch(connection, self._detection)
        return connection


class AddressInUse(RuntimeError):
    """The TCP socket can not be bound: cause, then remedy."""


def _watch(connection: socket.socket, detection: float) -> None:
    """End a connection whose peer is silent for about the detection time: its host may have gone without a word."""
    interval = max(1, math.ceil(detection / (PROBES + 1)))
    options = {
        socket.TCP_NODELAY: 1,
        socket.TCP_KEEPIDLE: interval,
        socket.TCP_KEEPINTVL: interval,
        socket.TCP_KEEPCNT: PROBES,
        socket.TCP_USER_TIMEOUT: round(detection * 1000),
    }
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
    for option, value in options.items():
        connection.setsockopt(socket.IPPROTO_TCP, option, value)


class MessageReader:
    """Reads messages of a connection, never a byte of the next one, which then shows as an event."""

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._begun = bytearray()

    def read(self, connection: socket.socket) -> bytes | None:
        """The next message; b"" at the end of the connection; None: it is not complete. Raises OSError."""
        if (wanted := self._missing()) and not self._take(connection, wanted):
            return b""
        if (wanted := self._missing()) and len(self._begun) >= LENGTH.size and not self._take(connection, wanted):
            return b""
        if self._missing():
            return None
        message = bytes(self._begun[LENGTH.size :])
        self._begun.clear()
        return message

    def _missing(self) -> int:
        """Bytes to the end of the length, or of the message. OSError: it is too long, or empty."""
        if len(self._begun) < LENGTH.size:
            return LENGTH.size - len(self._begun)
        (length,) = LENGTH.unpack_from(self._begun)
        if not 0 < length <= self._longest:
            raise OSError(errno.EPROTO, f"a message of {length} bytes")
        return LENGTH.size + length - len(self._begun)

    def _take(self, connection: socket.socket, wanted: int) -> bool:
        """Take what has come. False: the peer has closed."""
        try:
            data = connection.recv(wanted)
        except BlockingIOError:
            return True
        self._begun += data
        return bool(data)


def send_message(connection: socket.socket, data: bytes) -> None:
    """Send a whole message. Raises OSError, also if the peer does not take it."""
    framed = LENGTH.pack(len(data)) + data
    if connection.send(framed, socket.MSG_NOSIGNAL) != len(framed):
        raise OSError(errno.EAGAIN, "its connection is full")

"""The tables of a port: their memory, allocated once, linked by address, filled with what never changes; and the table
of other devices by IPv4 address, a hash table that only grows."""

import socket

import numpy as np
from numba import int64, uint64

from fanin_nic.engine.records.actions import RECEIVED
from fanin_nic.native.compiled import compiled
from fanin_nic.native.libc import IOVEC, MMSGHDR
from fanin_nic.native.memory import record_at
from fanin_nic.port.descriptors import (
    CONTROL,
    FRAME_SIZE,
    FRAMES_BYTES,
    IOVECS_PER_MESSAGE,
    PEER,
    PEER_SLOTS,
    PORT,
    RECEIVE_BUFFER_SIZE,
    RECEIVE_MESSAGES,
    RECEIVED_CAPACITY,
    SEND_MESSAGE,
    SEND_MESSAGES,
    SOCKET_ADDRESS,
)
from fanin_wire.fields import IPV4_UDP_SIZE, UDP_PORT

peer_at = record_at(PEER)
PEER_SIZE = PEER.itemsize
PROBES = 16
MULTIPLIER = 0x9E37_79B1  # 2^32 / golden ratio: Knuth's multiplicative hash
UDP_SEGMENT = 103  # linux/udp.h; missing in Python's socket module
UDP_GRO = 104
CONTROL_LENGTH_SEGMENT = 16 + 2  # CMSG_LEN of UDP_SEGMENT's u2


@compiled
def _first(address):
    """Where the row of an address is, or a little before it."""
    return (uint64(address) * uint64(MULTIPLIER) >> uint64(16)) & uint64(PEER_SLOTS - 1)


@compiled
def find_peer(table, address):
    """Address of the PEER of an IPv4 address, entered if new; without room the entry for all others."""
    first = _first(address)
    for probe in range(PROBES):
        place = table + uint64((first + probe) & (PEER_SLOTS - 1)) * uint64(PEER_SIZE)
        peer = peer_at(place)
        if peer.address == 0:
            peer.address = address
        if peer.address == address:
            return place
    return table + uint64(PEER_SLOTS * PEER_SIZE)


@compiled
def known_peer(table, address):
    """Address of the PEER of an IPv4 address; 0 if none."""
    first = _first(address)
    for probe in range(PROBES):
        place = table + uint64((first + probe) & (PEER_SLOTS - 1)) * uint64(PEER_SIZE)
        if peer_at(place).address == address:
            return place
    return uint64(0)


@compiled
def count_failed(peer_address, packets, reason):
    """Packets to a device failed. reason: errno; 0: longer than the port's MTU."""
    peer = peer_at(peer_address)
    peer.tx_failed += packets
    peer.send_error = reason


@compiled
def count_sent(message):
    """A super-packet was sent; returns its number of packets."""
    peer = peer_at(message.peer)
    peer.tx_packets += message.packets
    peer.tx_bytes += message.length + message.packets * IPV4_UDP_SIZE
    peer.tx_payload_bytes += message.payload_length
    return int64(message.packets)


class PortTables:
    """All tables of one port. receive_messages: datagrams or super-packets of a batch; buffers: whether it has own."""

    def __init__(self, receive_messages: int = RECEIVE_MESSAGES, *, buffers: bool = True) -> None:
        self.port = np.zeros(1, PORT)
        self.received = np.zeros(RECEIVED_CAPACITY, RECEIVED)
        self.peers = np.zeros(PEER_SLOTS + 1, PEER)
        self.receive_messages = np.zeros(receive_messages, MMSGHDR)
        self.send_headers = np.zeros(SEND_MESSAGES, MMSGHDR)
        self.send_messages = np.zeros(SEND_MESSAGES, SEND_MESSAGE)
        self.frame_messages = np.zeros(SEND_MESSAGES, SEND_MESSAGE)
        self._arrange_receive(receive_messages, receive_messages if buffers else 0)
        self._arrange_send()
        self._arrange_ordinary()
        self._link()

    def _arrange_receive(self, count: int, buffers: int) -> None:
        """Give each message a buffer for a whole super-packet, unless whoever fills it brings one. `receive` resets the
        lengths that the kernel overwrites."""
        self._receive_iovecs = np.zeros(count, IOVEC)
        self._buffers = np.zeros((buffers, RECEIVE_BUFFER_SIZE), np.uint8)
        self._receive_iovecs["base"][:buffers] = addresses_of(self._buffers)
        self._receive_iovecs["length"] = RECEIVE_BUFFER_SIZE
        self.sources = np.zeros(count, SOCKET_ADDRESS)
        self._receive_controls = np.zeros(count, CONTROL)
        messages = self.receive_messages
        messages["name"] = addresses_of(self.sources)
        messages["iov"], messages["iov_count"] = addresses_of(self._receive_iovecs), 1
        messages["control"] = addresses_of(self._receive_controls)
        for member in ("receive_used", "receive_limit", "receive_capacity"):
            self.port[member] = count

    def _arrange_send(self) -> None:
        """Give each message a destination, a control message for UDP_SEGMENT, and memory for its small pieces."""
        self._frames = np.zeros((SEND_MESSAGES, FRAME_SIZE), np.uint8)
        self._send_iovecs = np.zeros((SEND_MESSAGES, IOVECS_PER_MESSAGE), IOVEC)
        self._destinations, self._send_controls = _address(self.send_headers, self._send_iovecs)

    def _arrange_ordinary(self) -> None:
        """The same for ordinary traffic, where each message is one piece of the frames."""
        self._frames_of_ordinary = np.zeros(FRAMES_BYTES, np.uint8)
        self.frame_headers = np.zeros(SEND_MESSAGES, MMSGHDR)
        self._frame_iovecs = np.zeros(SEND_MESSAGES, IOVEC)
        self.frame_headers["iov_count"] = 1
        self._frame_destinations, self._frame_controls = _address(self.frame_headers, self._frame_iovecs)

    def _link(self) -> None:
        tables = {
            "received_table": self.received,
            "receive_message_table": self.receive_messages,
            "send_message_table": self.send_messages,
            "send_header_table": self.send_headers,
            "send_iovec_table": self._send_iovecs,
            "send_frame_table": self._frames,
            "frames": self._frames_of_ordinary,
            "frame_message_table": self.frame_messages,
            "frame_header_table": self.frame_headers,
            "peer_table": self.peers,
        }
        for member, table in tables.items():
            self.port[member] = table.ctypes.data


def _address(headers: np.ndarray, iovecs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Give the MMSGHDR records pieces, destinations and control messages for UDP_SEGMENT; returns the last two."""
    destinations, controls = np.zeros(len(headers), SOCKET_ADDRESS), np.zeros(len(headers), CONTROL)
    destinations["family"], destinations["port"] = socket.AF_INET, UDP_PORT
    controls["length"] = CONTROL_LENGTH_SEGMENT
    controls["level"], controls["type"] = socket.IPPROTO_UDP, UDP_SEGMENT
    headers["name"], headers["name_length"] = addresses_of(destinations), SOCKET_ADDRESS.itemsize
    headers["iov"], headers["control"] = addresses_of(iovecs), addresses_of(controls)
    return destinations, controls


def addresses_of(table: np.ndarray) -> np.ndarray:
    """Address of each entry along the first axis, uint64."""
    return np.uint64(table.ctypes.data) + np.arange(len(table), dtype=np.uint64) * np.uint64(table.strides[0])

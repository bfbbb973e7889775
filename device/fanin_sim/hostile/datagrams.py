"""Datagrams: a right Q_Key, and a receive request with room for them and the 40 bytes before (section 9.8.3, A17)."""

import numpy as np

from fanin_sim.hostile import messages
from fanin_sim.hostile.expectation import Expectation, dropped
from fanin_sim.hostile.memory import Memory
from fanin_sim.hostile.packets import Packet
from fanin_sim.hostile.queues import Queue
from fanin_wire.fields import ICRC_SIZE, IPV4_UDP_SIZE
from fanin_wire.rocev2 import GRH_SIZE
from fanin_wire.verbs import CompletionStatus


def expect(queue: Queue, row: np.void, memory: Memory, packet: Packet, size: int, source: int, own: int) -> Expectation:
    """The verdict on a datagram of `size` bytes from BTH to padding."""
    if packet.values["qkey"] != row["qkey"]:
        return dropped("drop_qkey")
    if not queue.source:
        return dropped("drop_no_receive")
    request, data = queue.source[0], network_header(size, source, own) + packet.payload
    if len(packet.payload) > row["mtu"] or len(data) > request.length:
        return dropped("drop_length")
    if not all(piece.may_write for piece in request.pieces if piece.length):
        return dropped("drop_protection")
    messages.scatter(memory, request.pieces, 0, data)
    expectation = Expectation()
    messages.end_receive(queue, CompletionStatus.SUCCESS, expectation.completions)
    return expectation


def network_header(size: int, source: int, own: int) -> bytes:
    """The 40 bytes: 20 zeros, then an IPv4 header with what a UDP socket knows."""
    length = (IPV4_UDP_SIZE + size + ICRC_SIZE).to_bytes(2, "big")
    header = (
        b"\x45\x00" + length + b"\x00\x00\x40\x00\x00\x11\x00\x00" + source.to_bytes(4, "big") + own.to_bytes(4, "big")
    )
    return bytes(GRH_SIZE - len(header)) + header

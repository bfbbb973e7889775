"""Segmentation: the packet of a request with a given PSN.

It follows from request and PSN alone, so that sending again is sending from an earlier PSN on (go-back-N, section
9.7.6).
"""

import numpy as np
from numba import int64

from fanin_nic.native.compiled import internal
from fanin_nic.transport.memory.pieces import LOCAL_READ, allows, gather
from fanin_nic.transport.output.encapsulate import OUTGOING, add_piece, new_packet, start
from fanin_nic.transport.records.accessors import U64, action_at, packet_at, sges_of_send
from fanin_nic.transport.records.psn import psn_distance
from fanin_nic.transport.requester.start import is_atomic
from fanin_wire.rocev2 import CODES, Transport
from fanin_wire.verbs import RequestOpcode, SendFlag

OWN_QKEY = 0x80000000  # in place of a remote key (section 10.2)


def _codes(**names: str) -> np.ndarray:
    """BTH opcodes of RC, by opcode of a request."""
    table = np.zeros(16, np.uint8)
    for name, code in names.items():
        table[RequestOpcode[name]] = CODES[f"RC_{code}"]
    return table


_SENDS, _WRITES = ("SEND", "SEND_WITH_IMM", "SEND_WITH_INV"), ("RDMA_WRITE", "RDMA_WRITE_WITH_IMM")
FIRST = _codes(**dict.fromkeys(_SENDS, "SEND_FIRST"), **dict.fromkeys(_WRITES, "RDMA_WRITE_FIRST"))
MIDDLE = _codes(**dict.fromkeys(_SENDS, "SEND_MIDDLE"), **dict.fromkeys(_WRITES, "RDMA_WRITE_MIDDLE"))
LAST = _codes(
    SEND="SEND_LAST",
    SEND_WITH_IMM="SEND_LAST_WITH_IMMEDIATE",
    SEND_WITH_INV="SEND_LAST_WITH_INVALIDATE",
    RDMA_WRITE="RDMA_WRITE_LAST",
    RDMA_WRITE_WITH_IMM="RDMA_WRITE_LAST_WITH_IMMEDIATE",
)
ONLY = _codes(
    SEND="SEND_ONLY",
    SEND_WITH_IMM="SEND_ONLY_WITH_IMMEDIATE",
    SEND_WITH_INV="SEND_ONLY_WITH_INVALIDATE",
    RDMA_WRITE="RDMA_WRITE_ONLY",
    RDMA_WRITE_WITH_IMM="RDMA_WRITE_ONLY_WITH_IMMEDIATE",
    RDMA_READ="RDMA_READ_REQUEST",
    ATOMIC_CMP_AND_SWP="COMPARE_SWAP",
    ATOMIC_FETCH_AND_ADD="FETCH_ADD",
)


@internal
def bth_opcode(q, opcode, is_first, is_last):
    begun = FIRST[opcode] if is_first else MIDDLE[opcode]
    ended = ONLY[opcode] if is_first else LAST[opcode]
    return int64(ended if is_last else begun) + int64(q.kind)


@internal
def send_packet(t, q, request, psn, asks):
    """Append the packet of a request with a PSN. asks: for an acknowledgement. False, without effect, if the memory of
    the request has lost its region meanwhile."""
    number = psn_distance(psn, request.first_psn)
    offset = number * int64(q.mtu)
    if request.opcode == RequestOpcode.RDMA_READ or is_atomic(request.opcode):
        ask(t, q, request, psn, offset)
        return True
    if not request.flags & SendFlag.INLINE and not allows(
        t, q, sges_of_send(request), int64(request.sge_count), LOCAL_READ
    ):
        return False
    is_last = number == int64(request.packets) - 1
    length = min(int64(request.length) - offset, int64(q.mtu))
    new_packet(t, q, bth_opcode(q, request.opcode, number == 0, is_last), psn)
    packet = packet_at(t, OUTGOING)
    packet.ackreq = asks
    packet.solicited = is_last and request.flags & SendFlag.SOLICITED != 0
    packet.va = request.remote_address
    packet.rkey = request.rkey
    packet.dlen = request.length
    packet.immdt = request.immediate
    packet.invalidated_rkey = request.immediate
    destination = q.destination
    if q.kind == Transport.UD:
        destination = request.destination
        address_datagram(q, request, packet)
    index = start(t, q, destination, length)
    name_request(t, q, index, psn)
    attach(t, q, request, index, offset, length)
    return True


@internal
def name_request(t, q, index, psn):
    """Note the request of a SEND."""
    action = action_at(t, U64(index))
    action.of_request = 1
    action.request = q.send_next
    action.psn = psn


@internal
def address_datagram(q, request, packet):
    """The fields of a datagram that name sender and receiver."""
    packet.dqpn = request.remote_qpn
    packet.sqpn = q.qpn
    packet.qkey = q.qkey if request.remote_qkey & OWN_QKEY else request.remote_qkey


@internal
def attach(t, q, request, index, offset, length):
    if not request.flags & SendFlag.INLINE:
        gather(t, q, index, sges_of_send(request), int64(request.sge_count), offset, length)
    elif length:
        add_piece(t, index, 0, sges_of_send(request) + U64(offset), length)


@internal
def ask(t, q, request, psn, offset):
    """Append the request of an atomic, or of a read from byte `offset` on."""
    new_packet(t, q, bth_opcode(q, request.opcode, True, True), psn)
    packet = packet_at(t, OUTGOING)
    packet.ackreq = 1
    packet.va = request.remote_address + U64(offset)
    packet.rkey = request.rkey
    packet.dlen = int64(request.length) - offset
    is_add = request.opcode == RequestOpcode.ATOMIC_FETCH_AND_ADD
    packet.compare = U64(0) if is_add else request.compare_add
    packet.swap = request.compare_add if is_add else request.swap
    start(t, q, q.destination, 0)

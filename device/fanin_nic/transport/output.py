"""What the transport asks its driver to do: packets, memory and completions, appended to the table of actions."""

import numpy as np
from numba import int64

from fanin_nic.native.codec import decoder, encoder
from fanin_nic.native.compiled import internal, internal_for
from fanin_nic.native.memory import address_of, fill_zero
from fanin_nic.transport.records.accessors import PSN_MASK, U64, action_at, add, count, packet_at
from fanin_nic.transport.records.actions import ACTION, EXTENDED_HEADERS, PACKET, ActionKind
from fanin_nic.transport.records.tables import TRANSPORT, Counter
from fanin_wire.abi import MAX_SGE
from fanin_wire.fields import BTH, DEFAULT_PKEY, Header
from fanin_wire.rocev2 import OPCODES
from fanin_wire.verbs import CompletionOpcode, RequestOpcode, SendFlag

ACTION_SIZE = U64(ACTION.itemsize)
MAX_ACTIONS_PER_PACKET = 2 * MAX_SGE + 4  # actions of one packet, received or sent
UNKNOWN = 255
HEADER = U64(ACTION.fields["header"][1])  # type: ignore[index]
PACKET_SIZE = U64(PACKET.itemsize)
OUTGOING = U64(1)  # row of the table of packets; row 0 is the received packet


# What an opcode says

_BITS = {header.name: 1 << number for number, header in enumerate(EXTENDED_HEADERS)}


def _by_opcode(value, unknown: int = UNKNOWN) -> np.ndarray:
    """Table by opcode of `value` of its row."""
    table = np.full(256, unknown, np.uint8)
    for code, row in OPCODES.items():
        table[code] = value(row)
    return table


SERVICES = _by_opcode(lambda row: row.transport)  # UNKNOWN: no such opcode
OPERATIONS = _by_opcode(lambda row: row.operation)
PARTS = _by_opcode(lambda row: row.part)
HEADER_BITS = _by_opcode(lambda row: sum(_BITS[header.name] for header in row.headers), 0)
HEADER_SIZES = _by_opcode(lambda row: BTH.size + sum(header.size for header in row.headers), 0)


@internal
def header_size(opcode):
    """Bytes of BTH and extended headers."""
    return int64(HEADER_SIZES[opcode])


# Packets


@internal
def new_packet(t, q, opcode, psn):
    """The PACKET record of a packet to the other side of a connection. The caller fills in its extended headers, then
    calls `send_bare`, or `start_packet` and `add_piece`."""
    packet = packet_at(t, OUTGOING)
    fill_zero(address_of(packet), PACKET_SIZE)
    packet.opcode = opcode
    packet.pkey = DEFAULT_PKEY
    packet.dqpn = q.remote_qpn
    packet.psn = int64(psn) & PSN_MASK


@internal
def send_bare(t, q):
    """Append the packet, without payload."""
    start_packet(t, q, q.destination, 0)


@internal
def start_packet(t, q, destination, length):
    """Append the SEND of the packet, whose `length` bytes of payload `add_piece` will add; returns its number."""
    packet = packet_at(t, OUTGOING)
    packet.padcount = -int64(length) & 3
    index = append(t, ActionKind.SEND)
    action = action_at(t, U64(index))
    action.queue_pair = q.index
    action.destination = destination
    action.header_length = header_size(packet.opcode)
    encode_headers(packet, address_of(action) + HEADER)
    count(t, Counter.TX_PACKETS)
    add(t, Counter.TX_BYTES, int64(length))
    return index


@internal
def add_piece(t, index, process, address, length):
    """More payload of the SEND `index`, the last packet in the table."""
    action = action_at(t, U64(index))
    number = index
    if action.pieces:
        number = append(t, ActionKind.PIECE)
    action_at(t, U64(index)).pieces += 1
    piece = action_at(t, U64(number))
    piece.process = process
    piece.payload = address
    piece.length = length


# Completions


@internal
def complete_send(t, q, request, status):
    """A request that is not signaled has a completion only if it failed."""
    if status == 0 and not q.all_signaled and not request.flags & SendFlag.SIGNALED:
        return
    action = action_at(t, U64(append(t, ActionKind.COMPLETE)))
    action.queue_pair = q.index
    action.completion_queue = q.send_cq
    action.qpn = q.qpn
    action.wr_id = request.wr_id
    action.status = status
    action.opcode = completion_opcode(request.opcode)
    action.byte_length = request.length if status == 0 else 0
    count(t, Counter.COMPLETIONS)


@internal
def completion_opcode(opcode):
    """Completion opcode of a request to send."""
    if opcode in (RequestOpcode.RDMA_WRITE, RequestOpcode.RDMA_WRITE_WITH_IMM):
        return CompletionOpcode.RDMA_WRITE
    if opcode == RequestOpcode.RDMA_READ:
        return CompletionOpcode.RDMA_READ
    if opcode == RequestOpcode.ATOMIC_CMP_AND_SWP:
        return CompletionOpcode.COMP_SWAP
    return CompletionOpcode.FETCH_ADD if opcode == RequestOpcode.ATOMIC_FETCH_AND_ADD else CompletionOpcode.SEND


@internal
def complete_receive(t, q, request, status, opcode, length):
    """The completion of a receive request; returns its action's number, for what the packet has beside data."""
    index = append(t, ActionKind.COMPLETE)
    action = action_at(t, U64(index))
    action.queue_pair = q.index
    action.completion_queue = q.receive_cq
    action.qpn = q.qpn
    action.wr_id = request.wr_id
    action.status = status
    action.opcode = opcode
    action.byte_length = int64(length) if status == 0 else 0
    count(t, Counter.COMPLETIONS)
    return index


# Headers on the wire

BTH_SIZE = BTH.size
HAS_DETH, HAS_RETH, HAS_ATOMICETH, HAS_AETH, HAS_ATOMICACKETH, HAS_IMMDT, HAS_IETH = _BITS.values()
_decode_bth, _encode_bth = decoder(BTH, PACKET), encoder(BTH, PACKET)


def _codec(header: Header):
    return U64(header.size), decoder(header, PACKET), encoder(header, PACKET)


_DETH_SIZE, _decode_deth, _encode_deth = _codec(EXTENDED_HEADERS[0])
_RETH_SIZE, _decode_reth, _encode_reth = _codec(EXTENDED_HEADERS[1])
_ATOMICETH_SIZE, _decode_atomiceth, _encode_atomiceth = _codec(EXTENDED_HEADERS[2])
_AETH_SIZE, _decode_aeth, _encode_aeth = _codec(EXTENDED_HEADERS[3])
_ATOMICACKETH_SIZE, _decode_atomicacketh, _encode_atomicacketh = _codec(EXTENDED_HEADERS[4])
_IMMDT_SIZE, _decode_immdt, _encode_immdt = _codec(EXTENDED_HEADERS[5])
_, _decode_ieth, _encode_ieth = _codec(EXTENDED_HEADERS[6])


@internal
def decode_bth(place, packet):
    _decode_bth(U64(place), address_of(packet))


@internal
def decode_extended(place, packet):
    """Read the headers behind the BTH at `place`, which must all be complete."""
    bits, at, record = int64(HEADER_BITS[packet.opcode]), U64(place) + U64(BTH_SIZE), address_of(packet)
    if bits & HAS_DETH:
        _decode_deth(at, record)
        at += _DETH_SIZE
    if bits & HAS_RETH:
        _decode_reth(at, record)
        at += _RETH_SIZE
    if bits & HAS_ATOMICETH:
        _decode_atomiceth(at, record)
        at += _ATOMICETH_SIZE
    if bits & HAS_AETH:
        _decode_aeth(at, record)
        at += _AETH_SIZE
    if bits & HAS_ATOMICACKETH:
        _decode_atomicacketh(at, record)
        at += _ATOMICACKETH_SIZE
    if bits & HAS_IMMDT:
        _decode_immdt(at, record)
        at += _IMMDT_SIZE
    if bits & HAS_IETH:
        _decode_ieth(at, record)


@internal
def encode_headers(packet, place):
    bits, at, record = int64(HEADER_BITS[packet.opcode]), U64(place) + U64(BTH_SIZE), address_of(packet)
    _encode_bth(record, U64(place))
    if bits & HAS_DETH:
        _encode_deth(record, at)
        at += _DETH_SIZE
    if bits & HAS_RETH:
        _encode_reth(record, at)
        at += _RETH_SIZE
    if bits & HAS_ATOMICETH:
        _encode_atomiceth(record, at)
        at += _ATOMICETH_SIZE
    if bits & HAS_AETH:
        _encode_aeth(record, at)
        at += _AETH_SIZE
    if bits & HAS_ATOMICACKETH:
        _encode_atomicacketh(record, at)
        at += _ATOMICACKETH_SIZE
    if bits & HAS_IMMDT:
        _encode_immdt(record, at)
        at += _IMMDT_SIZE
    if bits & HAS_IETH:
        _encode_ieth(record, at)


# The table of actions


@internal
def has_room(t):
    """Whether the actions of one more packet fit."""
    return int64(t.action_count) + MAX_ACTIONS_PER_PACKET <= int64(t.actions)


@internal_for(TRANSPORT, int64, returns=int64)
def append(t, kind):
    """Number of a new, zeroed action. A full table drops the last one and counts: callers check `has_room` first."""
    if t.action_count == t.actions:
        count(t, Counter.ACTION_OVERFLOW)
        t.action_count -= 1
    index = int64(t.action_count)
    t.action_count += 1
    action = action_at(t, U64(index))
    fill_zero(address_of(action), ACTION_SIZE)
    action.kind = kind
    return index

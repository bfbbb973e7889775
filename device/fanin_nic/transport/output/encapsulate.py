"""Encapsulation: packets as SEND actions."""

from numba import int64

from fanin_nic.native.compiled import internal
from fanin_nic.native.memory import address_of, fill_zero
from fanin_nic.transport.output.action_table import append
from fanin_nic.transport.output.headers import encode, header_size
from fanin_nic.transport.records.accessors import U64, action_at, add, count, packet_at
from fanin_nic.transport.records.actions import ACTION, ActionKind
from fanin_nic.transport.records.packets import PACKET
from fanin_nic.transport.records.psn import MASK
from fanin_nic.transport.records.tables import Counter
from fanin_wire.fields import DEFAULT_PKEY

HEADER = U64(ACTION.fields["header"][1])  # type: ignore[index]
PACKET_SIZE = U64(PACKET.itemsize)
OUTGOING = U64(1)  # row of the table of packets; row 0 is the received packet


@internal
def new_packet(t, q, opcode, psn):
    """The PACKET record of a packet to the other side of a connection. The caller fills in its extended headers, then
    calls `send`, or `start` and `add_piece`."""
    packet = packet_at(t, OUTGOING)
    fill_zero(address_of(packet), PACKET_SIZE)
    packet.opcode = opcode
    packet.pkey = DEFAULT_PKEY
    packet.dqpn = q.remote_qpn
    packet.psn = int64(psn) & MASK


@internal
def start(t, q, destination, length):
    """Append the SEND of the packet, whose `length` bytes of payload `add_piece` will add; returns its number."""
    packet = packet_at(t, OUTGOING)
    packet.padcount = -int64(length) & 3
    index = append(t, ActionKind.SEND)
    action = action_at(t, U64(index))
    action.queue_pair = q.index
    action.destination = destination
    action.header_length = header_size(packet.opcode)
    encode(packet, address_of(action) + HEADER)
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


@internal
def send(t, q):
    """Append the packet, without payload."""
    start(t, q, q.destination, 0)

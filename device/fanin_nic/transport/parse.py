"""A packet arrives: headers, queue pair, sender, and who takes it (sections 9.6.1 and 9.6.2)."""

from numba import int64

from fanin_nic.native.compiled import internal
from fanin_nic.transport.datagrams import on_datagram
from fanin_nic.transport.output import (
    BTH_SIZE,
    OPERATIONS,
    PARTS,
    SERVICES,
    UNKNOWN,
    decode_bth,
    decode_extended,
    header_size,
)
from fanin_nic.transport.records.accessors import U64, add, count, packet_at, queue_pair_at
from fanin_nic.transport.records.tables import Counter
from fanin_nic.transport.requester.answers import on_acknowledge, on_atomic_acknowledge, on_read_response
from fanin_nic.transport.responder.requests import on_request, on_unreliable_request
from fanin_wire.rocev2 import Operation, Transport
from fanin_wire.verbs import QueuePairState

ARRIVED = U64(0)  # row of the table of packets
MEMBERSHIP = 0x7FFF  # of a partition key, without the bit of full members


@internal
def on_packet(t, address, length, source):
    """Event: a packet with a right ICRC. address: of its BTH; length: bytes from there to the ICRC; source: IPv4."""
    if length < BTH_SIZE:
        count(t, Counter.DROP_SHORT)
        return
    packet = packet_at(t, ARRIVED)
    decode_bth(address, packet)
    size = header_size(packet.opcode)
    payload = int64(length) - size - int64(packet.padcount)
    if packet.version != 0:
        count(t, Counter.DROP_VERSION)
    elif int64(SERVICES[packet.opcode]) == UNKNOWN:
        count(t, Counter.DROP_UNKNOWN_OPCODE)
    elif int64(length) < size:
        count(t, Counter.DROP_SHORT)
    elif payload < 0 or length & 3:
        count(t, Counter.DROP_PADDING)
    elif int64(packet.pkey) & MEMBERSHIP != MEMBERSHIP:
        count(t, Counter.DROP_PKEY)
    else:
        decode_extended(address, packet)
        find_queue_pair(t, packet, U64(address) + U64(size), payload, source)


@internal
def find_queue_pair(t, packet, data, length, source):
    """Give a packet to its queue pair, if that may take it."""
    q = queue_pair_at(t, U64(packet.dqpn) & (U64(t.queue_pairs) - U64(1)))
    if q.qpn != packet.dqpn or q.qpn == 0:
        count(t, Counter.DROP_UNKNOWN_QUEUE_PAIR)
    elif int64(SERVICES[packet.opcode]) != int64(q.kind):
        count(t, Counter.DROP_SERVICE)
    elif not is_ready(q, int64(OPERATIONS[packet.opcode])):
        count(t, Counter.DROP_STATE)
    elif q.kind != Transport.UD and source != q.destination:
        count(t, Counter.DROP_SENDER)
    else:
        count(t, Counter.RX_PACKETS)
        add(t, Counter.RX_BYTES, length)
        dispatch(t, q, packet, data, length, source)


@internal
def answers(operation):
    """Whether packets of an operation answer requests."""
    return operation in (Operation.ACKNOWLEDGE, Operation.READ_RESPONSE, Operation.ATOMIC_ACKNOWLEDGE)


@internal
def is_ready(q, operation):
    """Whether the state of a queue pair lets it take requests, or answers to its own."""
    if answers(operation):
        return q.state == QueuePairState.RTS or q.state == QueuePairState.SQD
    return q.state >= QueuePairState.RTR and q.state != QueuePairState.ERR


@internal
def dispatch(t, q, packet, data, length, source):
    operation = int64(OPERATIONS[packet.opcode])
    if q.kind == Transport.UD:
        on_datagram(t, q, packet, data, length, source)
    elif q.kind != Transport.RC:
        on_unreliable_request(t, q, packet, data, length)
    elif not answers(operation):
        on_request(t, q, packet, data, length)
    elif operation == Operation.ACKNOWLEDGE:
        on_acknowledge(t, q, packet)
    elif operation == Operation.READ_RESPONSE:
        on_read_response(t, q, packet, int64(PARTS[packet.opcode]), data, length)
    else:
        on_atomic_acknowledge(t, q, packet)

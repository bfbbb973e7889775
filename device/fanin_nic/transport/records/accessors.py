"""Accessors of the tables for compiled code, and packet sequence numbers."""

import numpy as np
from numba import int64, uint32, uint64

from fanin_nic.native.compiled import internal, internal_for
from fanin_nic.native.memory import address_of, load_u32, load_u64, record_at, row_at, store_u32, store_u64
from fanin_nic.transport.records.actions import ACTION, PACKET
from fanin_nic.transport.records.tables import (
    ORIGINAL,
    QUEUE_PAIR,
    RECEIVE_REQUEST,
    REGION,
    RESPONSE,
    RESPONSES,
    SEND_REQUEST,
    SHARED_QUEUE,
    TRANSPORT,
)
from fanin_wire.abi import SGE
from fanin_wire.rocev2 import GRH_SIZE, PSN_BITS
from fanin_wire.verbs import MAX_RD_ATOMIC

PSN_MODULUS = 1 << PSN_BITS
PSN_MASK = PSN_MODULUS - 1
U32 = uint32
U64 = uint64
NEVER = np.uint64(2**64 - 1)
ZERO = np.uint64(0)

# Requests without their SGEs, which are read by address
SEND = SEND_REQUEST[[name for name in SEND_REQUEST.names or () if name != "sge"]]
RECEIVE = RECEIVE_REQUEST[[name for name in RECEIVE_REQUEST.names or () if name != "sge"]]
_SEND_SGE = np.uint64(SEND_REQUEST.fields["sge"][1])  # type: ignore[index]
_RECEIVE_SGE = np.uint64(RECEIVE_REQUEST.fields["sge"][1])  # type: ignore[index]
_SGE_SIZE = np.uint64(SGE.itemsize)
transport_at = record_at(TRANSPORT)
queue_pair_at = row_at(TRANSPORT, "queue_pair_offset", QUEUE_PAIR)
send_row = row_at(TRANSPORT, "send_offset", SEND)
receive_row = row_at(TRANSPORT, "receive_offset", RECEIVE)
shared_queue_at = row_at(TRANSPORT, "shared_queue_offset", SHARED_QUEUE)
shared_row = row_at(TRANSPORT, "shared_receive_offset", RECEIVE)
response_row = row_at(TRANSPORT, "response_offset", RESPONSE)
original_row = row_at(TRANSPORT, "original_offset", ORIGINAL)
region_at = row_at(TRANSPORT, "region_offset", REGION)
action_at = row_at(TRANSPORT, "action_offset", ACTION)
packet_at = row_at(TRANSPORT, "packet_offset", PACKET)
sge_at = record_at(SGE)


# Packet sequence numbers


@internal
def psn_after(psn, count):
    return (int64(psn) + int64(count)) & PSN_MASK


@internal
def psn_distance(psn, start):
    """Packets from `start` to `psn`, 0 to 2^24 - 1."""
    return (int64(psn) - int64(start)) & PSN_MASK


@internal
def psn_difference(psn, other):
    """Packets from `other` to `psn`, negative if `psn` is earlier."""
    distance = (int64(psn) - int64(other)) & PSN_MASK
    return distance - PSN_MODULUS if distance >= PSN_MODULUS // 2 else distance


@internal
def is_within(psn, start, end):
    """Whether a PSN is in [start, end)."""
    return psn_distance(psn, start) < psn_distance(end, start)


@internal
def packets_of(length, mtu):
    """Packets of a message, or of the response to a read; an empty one is one packet."""
    return max(1, (int64(length) + int64(mtu) - 1) // int64(mtu))


# Rows


@internal
def send_index(t, q, counter):
    """`counter`: free-running number of a request to send."""
    return U64(q.index) * U64(t.send_depth) + (U64(counter) & (U64(t.send_depth) - U64(1)))


@internal
def receive_index(t, q, counter):
    return U64(q.index) * U64(t.receive_depth) + (U64(counter) & (U64(t.receive_depth) - U64(1)))


@internal
def shared_index(t, shared, counter):
    return U64(shared.index) * U64(t.shared_depth) + (U64(counter) & (U64(t.shared_depth) - U64(1)))


@internal
def response_index(q, counter):
    return U64(q.index) * U64(RESPONSES) + (U64(counter) & U64(RESPONSES - 1))


@internal
def original_index(q, counter):
    """Row of the atomic with a free-running number."""
    return U64(q.index) * U64(MAX_RD_ATOMIC) + (U64(counter) & U64(MAX_RD_ATOMIC - 1))


@internal
def sges_of_send(request):
    """Address of the SGEs of a request to send, or its inline data."""
    return address_of(request) + _SEND_SGE


@internal
def sges_of_receive(request):
    return address_of(request) + _RECEIVE_SGE


@internal
def sge_address(sges, number):
    """Address of SGE `number` of a list."""
    return U64(sges) + U64(number) * _SGE_SIZE


@internal
def network_header(t):
    """Address of the header before a datagram in memory, for one action."""
    return address_of(t) + t.network_header_offset + U64(t.action_count) * U64(GRH_SIZE)


# Queue pairs with work


@internal
def make_ready(t, q):
    """Enter a queue pair into the list of those with work, once."""
    if not q.is_ready:
        q.is_ready = 1
        store_u32(ready_place(t, t.ready_tail), U32(q.index))
        t.ready_tail += 1


@internal
def take_ready(t):
    """Take the first queue pair off the list of those with work; -1 if it is empty."""
    if t.ready_head == t.ready_tail:
        return -1
    index = int64(load_u32(ready_place(t, t.ready_head)))
    t.ready_head += 1
    queue_pair_at(t, U64(index)).is_ready = 0
    return index


@internal
def ready_place(t, counter):
    """Address of an entry of the list of queue pairs with work."""
    return address_of(t) + t.ready_offset + (U64(counter) & (U64(t.queue_pairs) - U64(1))) * U64(4)


# Counters


@internal_for(TRANSPORT, int64, int64)
def add(t, counter, number):
    address = address_of(t) + t.counter_offset + U64(counter) * U64(8)
    store_u64(address, load_u64(address) + U64(number))


@internal
def count(t, counter):
    add(t, counter, 1)

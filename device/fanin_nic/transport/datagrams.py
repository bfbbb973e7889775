"""Unreliable datagrams: 40 bytes for the network's header, then the payload, to the oldest receive (9.8.3).

RoCEv2 over IPv4 has no global route header. In its place are 20 zero bytes and an IPv4 header (annex A17): the
addresses are right, and what a UDP socket does not show is zero.
"""

from numba import int64

from fanin_nic.native.compiled import internal
from fanin_nic.native.memory import fill_zero, store_be16, store_be32, store_u8
from fanin_nic.transport.memory import allows, scatter
from fanin_nic.transport.output import HAS_IMMDT, HEADER_BITS, complete_receive, header_size
from fanin_nic.transport.queue_pairs import drop_receive, has_receive, oldest_receive
from fanin_nic.transport.records.accessors import U64, action_at, count, network_header, sges_of_receive
from fanin_nic.transport.records.tables import Counter
from fanin_wire.fields import ICRC_SIZE, IPV4_UDP_SIZE
from fanin_wire.rocev2 import GRH_SIZE
from fanin_wire.verbs import Access, CompletionFlag, CompletionOpcode

VERSION, DONT_FRAGMENT, UDP_PROTOCOL = 0x45, 0x4000, 17


@internal
def on_datagram(t, q, packet, data, length, source):
    """A datagram for a queue pair. source: IPv4."""
    if packet.qkey != q.qkey:
        count(t, Counter.DROP_QKEY)
    elif not has_receive(t, q):
        count(t, Counter.DROP_NO_RECEIVE)
    else:
        deliver(t, q, packet, data, length, source)


@internal
def deliver(t, q, packet, data, length, source):
    """Write a datagram to the oldest receive request, and complete it, if it fits."""
    request = oldest_receive(t, q)
    sges, number = sges_of_receive(request), int64(request.sge_count)
    if length > int64(q.mtu) or U64(length + GRH_SIZE) > request.length:
        count(t, Counter.DROP_LENGTH)
        return
    if not allows(t, q, sges, number, Access.LOCAL_WRITE):
        count(t, Counter.DROP_PROTECTION)
        return
    header = network_header(t)
    write_network_header(t, header, packet, length, source)
    scatter(t, q, sges, number, 0, header, GRH_SIZE)
    scatter(t, q, sges, number, GRH_SIZE, data, length)
    action = action_at(t, U64(complete_receive(t, q, request, 0, CompletionOpcode.RECV, length + GRH_SIZE)))
    drop_receive(t, q)
    action.source_qpn = packet.sqpn
    action.source = source
    action.flags = CompletionFlag.GRH
    action.solicited = packet.solicited
    if int64(HEADER_BITS[packet.opcode]) & HAS_IMMDT:
        action.flags = CompletionFlag.GRH | CompletionFlag.WITH_IMM
        action.immediate = packet.immdt


@internal
def write_network_header(t, place, packet, length, source):
    """The 40 bytes before a datagram, as above."""
    fill_zero(place, U64(GRH_SIZE))
    start = place + U64(20)
    total = IPV4_UDP_SIZE + header_size(packet.opcode) + length + int64(packet.padcount) + ICRC_SIZE
    store_u8(start, VERSION)
    store_be16(start + U64(2), total)
    store_be16(start + U64(6), DONT_FRAGMENT)
    store_u8(start + U64(9), UDP_PROTOCOL)
    store_be32(start + U64(12), source)
    store_be32(start + U64(16), t.address)

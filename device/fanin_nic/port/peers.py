"""The table of other devices by IPv4 address: a hash table that only grows."""

from numba import int64, uint64

from fanin_nic.native.compiled import compiled
from fanin_nic.native.memory import record_at
from fanin_nic.port.descriptors import PEER, PEER_SLOTS
from fanin_wire.fields import IPV4_UDP_SIZE

peer_at = record_at(PEER)

PEER_SIZE = PEER.itemsize
PROBES = 16
MULTIPLIER = 0x9E37_79B1  # 2^32 / golden ratio: Knuth's multiplicative hash


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

"""Packet sequence numbers: 24 bits, compared modulo 2^24 (section 9.7.1)."""

from numba import int64

from fanin_nic.native.compiled import internal
from fanin_wire.rocev2 import PSN_BITS

MODULUS = 1 << PSN_BITS
MASK = MODULUS - 1
HALF = MODULUS // 2


@internal
def psn_after(psn, count):
    return (int64(psn) + int64(count)) & MASK


@internal
def psn_distance(psn, start):
    """Packets from `start` to `psn`, 0 to 2^24 - 1."""
    return (int64(psn) - int64(start)) & MASK


@internal
def psn_difference(psn, other):
    """Packets from `other` to `psn`, negative if `psn` is earlier."""
    distance = (int64(psn) - int64(other)) & MASK
    return distance - MODULUS if distance >= HALF else distance


@internal
def is_within(psn, start, end):
    """Whether a PSN is in [start, end)."""
    return psn_distance(psn, start) < psn_distance(end, start)


@internal
def packets_of(length, mtu):
    """Packets of a message, or of the response to a read; an empty one is one packet."""
    return max(1, (int64(length) + int64(mtu) - 1) // int64(mtu))

"""The writer of a tap's ring (layout: fanin_wire/tap.py; record 0069 says why, and what it costs).

place = reserve(tap, units)        a record of so many units; 0: no room, and counted as missed
...
publish(tap)                       all records since the last call

The reader is not trusted: all places come from the TAP record, which it can not write.
"""

import numpy as np
from numba import uint32, uint64

from fanin_nic.native.compiled import compiled
from fanin_nic.native.memory import fill_zero, load_acquire, record_at, store_release
from fanin_wire.tap import PACKET, RING_HEAD, SEGMENT, UNIT, Record

# What a lane knows of its tap.
TAP = np.dtype(
    [
        ("ring", "u8"),  # address of the RING_HEAD
        ("received", "u8"),  # addresses of the records of the packets in the port's table of RECEIVED; 0: none
        ("now", "u8"),  # ns: when the present batch of packets came or went
        ("units", "u4"),  # of the ring
        ("producer", "u4"),  # with what is not published yet
        ("missed", "u4"),
        ("packets", "u4"),  # 1: packets are recorded
        ("segments", "u4"),  # 1: segments are recorded
        ("one_job", "u4"),  # 1: of job `jid` only
        ("jid", "u4"),
        ("kinds", "u4"),  # bits of kinds of packets
    ],
    align=True,
)
tap_at = record_at(TAP)
packet_at = record_at(PACKET)
segment_at = record_at(SEGMENT)

HEAD_SIZE, UNIT_SIZE = uint64(RING_HEAD.itemsize), uint64(UNIT)
PRODUCER = uint64(RING_HEAD.fields["producer"][1])  # type: ignore[index]
MISSED = uint64(RING_HEAD.fields["missed"][1])  # type: ignore[index]
CONSUMER = uint64(RING_HEAD.fields["consumer"][1])  # type: ignore[index]


@compiled
def reserve(tap, units):
    """Address of a new record of `units` units, the first one zeroed; 0: the reader is too slow."""
    size, wanted = uint32(tap.units), uint32(units)
    used = uint32(tap.producer - load_acquire(tap.ring + CONSUMER))
    place = uint32(tap.producer & (size - uint32(1)))
    left_out = uint32(0) if place + wanted <= size else uint32(size - place)
    if used > size or wanted + left_out > size - used:
        tap.missed += uint32(1)
        store_release(tap.ring + MISSED, tap.missed)
        return uint64(0)
    if left_out:
        filler = packet_at(_unit(tap, place))
        filler.kind = Record.FILLER
        filler.units = left_out
        place = uint32(0)
    tap.producer = uint32(tap.producer + left_out + wanted)
    address = _unit(tap, place)
    fill_zero(address, UNIT_SIZE)
    packet_at(address).units = wanted
    return address


@compiled
def _unit(tap, place):
    return tap.ring + HEAD_SIZE + uint64(place) * UNIT_SIZE


@compiled
def publish(tap):
    """Show the reader all records so far."""
    store_release(tap.ring + PRODUCER, tap.producer)

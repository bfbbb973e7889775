"""The device's end of an arrival ring, in compiled code: short data that come before a rank asks for them.

A client may write the ring's memory; whatever it writes, the device stays inside the ring. Record 0058: why an arrival
is only a hint, and why the rings are this small.
"""

import numpy as np
from numba import uint32, uint64

from fanin_nic.hostif.rings import CONSUMER_SEEN, ENTRIES, PRODUCER, see
from fanin_nic.native.compiled import compiled
from fanin_nic.native.memory import copy, load_u32, record_at, store_release
from fanin_wire import abi

UNIT = np.uint64(abi.ARRIVAL_UNIT)
UNITS = np.uint32(abi.ARRIVAL_UNITS)
HEAD = np.uint64(abi.ARRIVAL.itemsize)
NO_ARRIVAL = abi.NO_ARRIVAL
ARRIVAL_RING_BYTES = abi.RING.itemsize + abi.ARRIVAL_UNITS * int(UNIT)

arrival_at = record_at(abi.ARRIVAL[["jid", "mid", "length", "dtype"]])


@compiled
def store_arrival(ring, action):
    """Store the data of an ARRIVAL action; nothing if the ring is full or its counters are inconsistent."""
    units = uint32((HEAD + uint64(action.length) + UNIT - uint64(1)) // UNIT)
    producer = load_u32(ring + PRODUCER)
    place = uint32(producer % UNITS)
    left = uint32(UNITS - place)
    skipped = left if units > left else uint32(0)
    needed = uint32(units + skipped)
    if not has_room(producer, load_u32(ring + CONSUMER_SEEN), needed) and not has_room(producer, see(ring), needed):
        return
    if skipped:
        arrival_at(unit_address(ring, place)).length = NO_ARRIVAL
        place = uint32(0)
    arrival = arrival_at(unit_address(ring, place))
    arrival.jid = action.jid
    arrival.mid = action.mid
    arrival.length = action.length
    arrival.dtype = action.opcode
    copy(unit_address(ring, place) + HEAD, action.payload, uint64(action.length))
    store_release(ring + PRODUCER, uint32(producer + needed))


@compiled
def has_room(producer, consumer, units):
    used = uint32(producer - consumer)
    return used <= UNITS and units <= uint32(UNITS - used)


@compiled
def unit_address(ring, number):
    """Address of a unit of a ring."""
    return ring + ENTRIES + uint64(number) * UNIT

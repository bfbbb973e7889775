"""The device's ends of send, completion and arrival rings, in compiled code, by address.

The client can write their memory. So a WQE is copied before it is checked, and inconsistent counters make a ring look
empty or full: a client that scribbles harms only its own queues, and the device stays inside the ring. Record 0058: why
an arrival is only a hint, and why the rings are this small.
"""

import numpy as np
from numba import uint32, uint64

from fanin_nic.native.compiled import compiled
from fanin_nic.native.libc import futex_wake
from fanin_nic.native.memory import (
    copy,
    full_fence,
    load_acquire,
    load_relaxed,
    load_u32,
    load_u64,
    record_at,
    store_release,
    store_u32,
)
from fanin_wire import abi
from fanin_wire.abi import NO_ARRIVAL

PRODUCER = np.uint64(abi.ffi.offsetof("struct fanin_ring", "producer"))
CONSUMER = np.uint64(abi.ffi.offsetof("struct fanin_ring", "consumer"))
CONSUMER_SEEN = np.uint64(abi.ffi.offsetof("struct fanin_ring", "consumer_seen"))
WAITING = np.uint64(abi.ffi.offsetof("struct fanin_ring", "waiting"))
WAKE_AT = np.uint64(abi.ffi.offsetof("struct fanin_ring", "wake_at"))
OVERRUN = np.uint64(abi.ffi.offsetof("struct fanin_ring", "overrun"))
ENTRIES = np.uint64(abi.RING.itemsize)
HALF = np.uint32(1 << 31)  # of a counter's range
WQE_BYTES = np.uint64(abi.WQE.itemsize)
CQE_BYTES = np.uint64(abi.CQE.itemsize)
SQ_DEPTH = np.uint32(abi.SQ_DEPTH)
CQ_DEPTH = np.uint32(abi.CQ_DEPTH)
SLEEPING = np.uint64(abi.ffi.offsetof("struct fanin_doorbell", "device_sleeping"))
GONE = np.uint64(abi.ffi.offsetof("struct fanin_doorbell", "device_gone"))
BEAT = np.uint64(abi.ffi.offsetof("struct fanin_doorbell", "beat"))
ARRIVAL_UNIT = np.uint64(abi.ARRIVAL_UNIT)
ARRIVAL_UNITS = np.uint32(abi.ARRIVAL_UNITS)
ARRIVAL_HEAD = np.uint64(abi.ARRIVAL.itemsize)
ARRIVAL_RING_BYTES = abi.RING.itemsize + abi.ARRIVAL_UNITS * int(ARRIVAL_UNIT)
arrival_at = record_at(abi.ARRIVAL[["jid", "mid", "length", "dtype"]])


# Requests


@compiled
def fetch(ring, wqe):
    """Take the oldest WQE of the send ring, to address `wqe`. False: none."""
    if not peek(ring, wqe):
        return False
    consume(ring)
    return True


@compiled
def peek(ring, wqe):
    """Copy the oldest WQE of the send ring to address `wqe` without taking it. False: none."""
    if pending(ring) == 0:
        return False
    consumer = load_u32(ring + CONSUMER)
    copy(wqe, ring + ENTRIES + uint64(consumer % SQ_DEPTH) * WQE_BYTES, WQE_BYTES)
    return True


@compiled
def pending(ring):
    """WQEs in the send ring at address `ring`; 0 also if its counters are inconsistent."""
    count = uint32(load_acquire(ring + PRODUCER) - load_u32(ring + CONSUMER))
    return count if count <= SQ_DEPTH else uint32(0)


@compiled
def consume(ring):
    """Free the entry of the oldest WQE, after `peek`."""
    store_release(ring + CONSUMER, uint32(load_u32(ring + CONSUMER) + 1))


@compiled
def fetch_ordinary(ring, wqe, size, depth):
    """`fetch` for a ring of ordinary traffic, with `depth` entries of `size` bytes."""
    if pending_ordinary(ring, depth) == 0:
        return False
    consumer = load_u32(ring + CONSUMER)
    copy(wqe, ring + ENTRIES + uint64(consumer % depth) * uint64(size), uint64(size))
    consume(ring)
    return True


@compiled
def pending_ordinary(ring, depth):
    """`pending` for a ring of ordinary traffic."""
    count = uint32(load_acquire(ring + PRODUCER) - load_u32(ring + CONSUMER))
    return count if count <= depth else uint32(0)


# Completions


@compiled
def complete(ring, cqe):
    if not store(ring, cqe):
        return False
    full_fence()
    wake(ring)
    return True


@compiled
def store(ring, cqe):
    """Store the CQE at address `cqe`; `wake` comes later. False: the ring is full, and marked as overrun, because it no
    longer holds all completions."""
    producer = load_u32(ring + PRODUCER)
    if uint32(producer - load_u32(ring + CONSUMER_SEEN)) >= CQ_DEPTH and uint32(producer - see(ring)) >= CQ_DEPTH:
        store_release(ring + OVERRUN, uint32(1))
        return False
    copy(ring + ENTRIES + uint64(producer % CQ_DEPTH) * CQE_BYTES, cqe, CQE_BYTES)
    store_release(ring + PRODUCER, uint32(producer + 1))
    return True


@compiled
def see(ring):
    """How far the client has emptied a ring."""
    consumer = load_acquire(ring + CONSUMER)
    store_u32(ring + CONSUMER_SEEN, consumer)
    return consumer


@compiled
def wake(ring):
    """Wake the clients that sleep on a completion ring and have what they wait for. A full fence must be between
    `store` and this; other clients see what was stored."""
    if load_relaxed(ring + WAITING) != 0 and has_reached(load_u32(ring + PRODUCER), load_relaxed(ring + WAKE_AT)):
        futex_wake(ring + PRODUCER)


@compiled
def has_reached(counter, other):
    """Whether a free-running counter is at, or beyond, another."""
    return uint32(counter - other) < HALF


# Arrivals: short data that come before a rank asks for them


@compiled
def store_arrival(ring, action):
    """Store the data of an ARRIVAL action; nothing if the ring is full or its counters are inconsistent."""
    units = uint32((ARRIVAL_HEAD + uint64(action.length) + ARRIVAL_UNIT - uint64(1)) // ARRIVAL_UNIT)
    producer = load_u32(ring + PRODUCER)
    place = uint32(producer % ARRIVAL_UNITS)
    left = uint32(ARRIVAL_UNITS - place)
    skipped = left if units > left else uint32(0)
    needed = uint32(units + skipped)
    if not _has_room(producer, load_u32(ring + CONSUMER_SEEN), needed) and not _has_room(producer, see(ring), needed):
        return
    if skipped:
        arrival_at(_unit_address(ring, place)).length = NO_ARRIVAL
        place = uint32(0)
    arrival = arrival_at(_unit_address(ring, place))
    arrival.jid = action.jid
    arrival.mid = action.mid
    arrival.length = action.length
    arrival.dtype = action.opcode
    copy(_unit_address(ring, place) + ARRIVAL_HEAD, action.payload, uint64(action.length))
    store_release(ring + PRODUCER, uint32(producer + needed))


@compiled
def _has_room(producer, consumer, units):
    used = uint32(producer - consumer)
    return used <= ARRIVAL_UNITS and units <= uint32(ARRIVAL_UNITS - used)


@compiled
def _unit_address(ring, number):
    """Address of a unit of a ring."""
    return ring + ENTRIES + uint64(number) * ARRIVAL_UNIT


# Doorbells


@compiled
def set_sleeping(doorbells, count, sleeping):
    """Tell clients whether the device sleeps. doorbells: address of `count` addresses of doorbell pages."""
    for index in range(count):
        store_release(load_u64(doorbells + uint64(8 * index)) + SLEEPING, uint32(sleeping))
    full_fence()


@compiled
def beat(doorbells, count, number):
    """Show clients that the device runs, by a new number. doorbells: as of `set_sleeping`."""
    for index in range(count):
        store_release(load_u64(doorbells + uint64(8 * index)) + BEAT, uint32(number))

"""Compiled parts of the floor: a rank and its devices wait for each other and wake each other.

Each word of shared memory is in a cache line of its own. A rank and a device share two words: the number of the round
that the rank has begun, and the number of the round that the device has done. Every process has a word that says
whether it sleeps.
"""

from __future__ import annotations

from numba import int32, uint32, uint64

from fanin_nic.native.compiled import compiled
from fanin_nic.native.libc import POLLFD, POLLIN, monotonic_ns, poll, read, sched_yield, stack_bytes, write
from fanin_nic.native.memory import full_fence, load_acquire, record_at, store_release, store_u64

RING = uint64(8)  # bytes that an eventfd takes
TIMEOUT_MS = 2000

pollfd_at = record_at(POLLFD)


@compiled
def run_rank(begun, done, sleeping_flag, device_sleeps, event, device_events, yields, rounds, times):
    """Begin each round at every device, and wait until all devices have done it. Returns False after a timeout.

    begun, done, device_sleeps, device_events: of each device; times: address of the nanoseconds of each round.
    """
    for number in range(1, rounds + 1):
        start = monotonic_ns()
        for device in range(begun.size):
            tell(begun[device], number, device_sleeps[device], device_events[device])
        for device in range(done.size):
            if not await_word(done[device], number, sleeping_flag, event, yields):
                return False
        store_u64(times + uint64(8 * (number - 1)), uint64(monotonic_ns() - start))
    return True


@compiled
def tell(word, number, sleeping_flag, event):
    """Set a word for another process, and wake it if it sleeps."""
    store_release(word, uint32(number))
    full_fence()
    if load_acquire(sleeping_flag):
        one = stack_bytes(8)
        store_u64(one, uint64(1))
        write(int32(event), one, RING)


@compiled
def await_word(word, number, sleeping_flag, event, yields):
    """Yield for a while, then sleep, until the word has reached `number`."""
    idle = 0
    while load_acquire(word) < uint32(number):
        if idle < yields:
            idle += 1
            sched_yield()
            continue
        store_release(sleeping_flag, uint32(1))
        full_fence()
        woken = load_acquire(word) >= uint32(number) or is_ready(event)
        store_release(sleeping_flag, uint32(0))
        if not woken:
            return False
        read(int32(event), stack_bytes(8), RING)
    return True


@compiled
def is_ready(descriptor):
    """Sleep until there is something to read or a signal comes. Returns False after TIMEOUT_MS."""
    place = stack_bytes(8)
    entry = pollfd_at(place)
    entry.fd = descriptor
    entry.events = POLLIN
    entry.revents = 0
    return poll(place, uint64(1), int32(TIMEOUT_MS)) != 0

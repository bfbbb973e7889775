"""Compiled parts of the floor: how a rank, a NIC and a switch wait for each other and wake each other, and no more.

| words of a rank and its NIC, in cache lines of their own | written by |
| --- | --- |
| 0: round that the rank has begun | rank |
| 1: round that is done | NIC |
| 2: the rank sleeps | rank |
| 3: the NIC sleeps | NIC |
"""

from __future__ import annotations

from numba import int32, uint32, uint64

from fanin_nic.native.compiled import compiled
from fanin_nic.native.libc import POLLFD, POLLIN, monotonic_ns, poll, read, sched_yield, stack_bytes, write
from fanin_nic.native.memory import full_fence, load_acquire, record_at, store_release, store_u64

BEGUN, DONE, RANK_SLEEPS, NIC_SLEEPS = (uint64(64 * number) for number in range(4))
LENGTH = uint64(8)  # of a datagram, and of what an eventfd takes
PATIENCE_MS = 2000

pollfd_at = record_at(POLLFD)


@compiled
def be_rank(words, own_event, nic_event, yields, rounds, times):
    """`times`: address of the nanoseconds of each round. False if somebody does not answer any more."""
    for number in range(1, rounds + 1):
        start = monotonic_ns()
        tell(words + BEGUN, number, words + NIC_SLEEPS, nic_event)
        if not await_word(words + DONE, number, words + RANK_SLEEPS, own_event, yields):
            return False
        store_u64(times + uint64(8 * (number - 1)), uint64(monotonic_ns() - start))
    return True


@compiled
def be_nic(words, own_event, rank_event, receiver, sender, yields, rounds):
    """A datagram up for each round of the rank, a word to the rank for each datagram down."""
    datagram = stack_bytes(8)
    store_u64(datagram, uint64(1))
    for number in range(1, rounds + 1):
        if not await_word(words + BEGUN, number, words + NIC_SLEEPS, own_event, yields):
            return False
        write(int32(sender), datagram, LENGTH)
        if not await_datagram(receiver, yields):
            return False
        tell(words + DONE, number, words + RANK_SLEEPS, rank_event)
    return True


@compiled
def be_switch(receiver, senders, yields, rounds):
    """A datagram to every NIC whenever one has come from each."""
    datagram = stack_bytes(8)
    store_u64(datagram, uint64(1))
    for _ in range(rounds):
        for _ in range(senders.size):
            if not await_datagram(receiver, yields):
                return False
        for index in range(senders.size):
            write(int32(senders[index]), datagram, LENGTH)
    return True


@compiled
def tell(word, number, sleeps, event):
    """Set a word for another process, and wake it if it sleeps."""
    store_release(word, uint32(number))
    full_fence()
    if load_acquire(sleeps):
        one = stack_bytes(8)
        store_u64(one, uint64(1))
        write(int32(event), one, LENGTH)


@compiled
def await_word(word, number, sleeps, event, yields):
    """Yield for a while, then sleep, until the word has reached `number`."""
    idle = 0
    while load_acquire(word) < uint32(number):
        if idle < yields:
            idle += 1
            sched_yield()
            continue
        store_release(sleeps, uint32(1))
        full_fence()
        woken = load_acquire(word) >= uint32(number) or is_ready(event)
        store_release(sleeps, uint32(0))
        if not woken:
            return False
        read(int32(event), stack_bytes(8), LENGTH)
    return True


@compiled
def await_datagram(receiver, yields):
    """The same for a datagram."""
    idle, datagram = 0, stack_bytes(8)
    while read(int32(receiver), datagram, LENGTH) < 0:
        if idle < yields:
            idle += 1
            sched_yield()
        elif not is_ready(receiver):
            return False
    return True


@compiled
def is_ready(descriptor):
    """Sleep until there is something to read; False if nothing comes for long."""
    place = stack_bytes(8)
    entry = pollfd_at(place)
    entry.fd = descriptor
    entry.events = POLLIN
    entry.revents = 0
    return poll(place, uint64(1), int32(PATIENCE_MS)) > 0

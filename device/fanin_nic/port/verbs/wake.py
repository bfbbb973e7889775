"""What the compiled code of a verbs port leaves to the resolver's thread, and how it wakes it."""

from numba import uint32, uint64

from fanin_nic.native.compiled import compiled
from fanin_nic.native.libc import stack_bytes, write
from fanin_nic.native.memory import (
    address_of,
    exchange,
    load_acquire,
    load_acquire_64,
    load_relaxed,
    store_release,
    store_u64,
)
from fanin_nic.port.descriptors import DESTINATION
from fanin_nic.port.verbs.records import VERBS

EVENT_BYTES = 8
BROKEN, WANTED = (VERBS.fields[name][1] for name in ("broken", "wanted"))  # type: ignore[index]
HANDLE, QUEUE_PAIR, DESTINATION_WANTED = (
    DESTINATION.fields[name][1]  # type: ignore[index]
    for name in ("handle", "queue_pair", "wanted")
)


@compiled
def wake(verbs):
    """Wake the resolver, unless it was woken since it last looked. Its exchange and this one have one order: it has yet
    to look, and finds what was stored before this, or it is woken."""
    if exchange(address_of(verbs) + uint64(WANTED), uint32(1)):
        return
    one = stack_bytes(EVENT_BYTES)
    store_u64(one, uint64(1))
    write(verbs.wake_fd, one, uint64(EVENT_BYTES))


@compiled
def is_broken(verbs):
    """Whether the queue pair has failed and is not recovered. Read what the resolver sets anew after this."""
    return load_acquire(address_of(verbs) + uint64(BROKEN)) != 0


@compiled
def want(verbs, destination):
    """Let the resolver ask for a destination."""
    store_release(address_of(destination) + uint64(DESTINATION_WANTED), uint32(1))
    wake(verbs)


@compiled
def is_wanted(destination):
    """Whether the resolver has yet to ask for a destination."""
    return load_relaxed(address_of(destination) + uint64(DESTINATION_WANTED)) != 0


@compiled
def handle_of(destination):
    """0: not known yet. Read what the resolver learnt with it after this."""
    return load_acquire_64(address_of(destination) + uint64(HANDLE))


@compiled
def queue_pair_of(destination):
    """Call it after `handle_of`."""
    return load_relaxed(address_of(destination) + uint64(QUEUE_PAIR))


@compiled
def fail(verbs, reason):
    """The queue pair has failed. Compiled code leaves it alone until the resolver has recovered it, which may be at
    once: after this, look at the tables again, or not at all."""
    verbs.status = reason
    store_release(address_of(verbs) + uint64(BROKEN), uint32(1))
    wake(verbs)

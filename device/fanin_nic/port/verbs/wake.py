"""What the compiled code of a verbs port leaves to the resolver's thread, and how it wakes it."""

from __future__ import annotations

from numba import uint64

from fanin_nic.native.compiled import compiled
from fanin_nic.native.libc import stack_bytes, write
from fanin_nic.native.memory import address_of, load_acquire, store_u64
from fanin_nic.port.verbs.records import VERBS

EVENT_BYTES = 8
BROKEN = VERBS.fields["broken"][1]  # type: ignore[index]


@compiled
def wake(verbs):
    """Wake the resolver, unless it was woken since it last looked."""
    if verbs.wanted:
        return
    verbs.wanted = 1
    one = stack_bytes(EVENT_BYTES)
    store_u64(one, uint64(1))
    write(verbs.wake_fd, one, uint64(EVENT_BYTES))


@compiled
def is_broken(verbs):
    """Whether the queue pair has failed and is not mended yet. What the resolver has set anew is seen after this."""
    return load_acquire(address_of(verbs) + uint64(BROKEN)) != 0


@compiled
def fail(verbs, reason):
    """The queue pair has failed. Compiled code leaves it alone until the resolver has mended it, which may be at once:
    whoever calls this looks at the tables again, or no more."""
    verbs.status = reason
    verbs.broken = 1
    wake(verbs)

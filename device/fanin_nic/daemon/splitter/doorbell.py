"""Doorbells between the lanes of a device: a doorbell word and an eventfd, as of a client."""

import numpy as np

from fanin_nic.hostif.rings import SLEEPING
from fanin_nic.native.compiled import compiled
from fanin_nic.native.libc import read, stack_bytes, write
from fanin_nic.native.memory import full_fence, load_relaxed, record_at, store_u64

LANE_DOORBELL = np.dtype(
    [
        ("doorbell", "u8"),  # address of the DOORBELL that the sleeper sets
        ("eventfd", "i4"),
    ],
    align=True,
)

doorbell_at = record_at(LANE_DOORBELL)
EVENT_SIZE = np.uint64(8)


@compiled
def ring_doorbell(address):
    """Wake the lane of the LANE_DOORBELL at `address`, if it sleeps. Store what it shall find before."""
    full_fence()
    doorbell = doorbell_at(address)
    if load_relaxed(doorbell.doorbell + SLEEPING):
        event = stack_bytes(8)
        store_u64(event, np.uint64(1))
        write(doorbell.eventfd, event, EVENT_SIZE)


@compiled
def drain_doorbell(eventfd):
    """Reset the eventfd of a doorbell, after poll has shown it as readable."""
    read(eventfd, stack_bytes(8), EVENT_SIZE)

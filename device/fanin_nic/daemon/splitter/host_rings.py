"""The host's ends of send and completion rings, in compiled code: the splitter is the host of the lanes."""

from numba import uint32, uint64

from fanin_nic.hostif.rings import CONSUMER, CQ_DEPTH, CQE_BYTES, ENTRIES, PRODUCER, SQ_DEPTH, WQE_BYTES
from fanin_nic.native.compiled import compiled
from fanin_nic.native.memory import copy, load_acquire, load_u32, store_release


@compiled
def submit(ring, wqe):
    """Store the WQE at address `wqe` in a send ring that has room."""
    producer = load_u32(ring + PRODUCER)
    copy(ring + ENTRIES + uint64(producer % SQ_DEPTH) * WQE_BYTES, wqe, WQE_BYTES)
    store_release(ring + PRODUCER, uint32(producer + 1))


@compiled
def is_empty(ring):
    return load_acquire(ring + PRODUCER) == load_u32(ring + CONSUMER)


@compiled
def take(ring, cqe):
    """Take the oldest CQE of a completion ring, to address `cqe`. False: none."""
    if is_empty(ring):
        return False
    consumer = load_u32(ring + CONSUMER)
    copy(cqe, ring + ENTRIES + uint64(consumer % CQ_DEPTH) * CQE_BYTES, CQE_BYTES)
    store_release(ring + CONSUMER, uint32(consumer + 1))
    return True

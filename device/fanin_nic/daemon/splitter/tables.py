"""The tables of the splitter, and its ends of rings and doorbells towards the lanes."""

import numpy as np
from numba import uint32, uint64

from fanin_nic.hostif import rings
from fanin_nic.hostif.rings import CONSUMER, CQ_DEPTH, CQE_BYTES, ENTRIES, PRODUCER, SLEEPING, SQ_DEPTH, WQE_BYTES
from fanin_nic.native.compiled import compiled
from fanin_nic.native.libc import read, stack_bytes, write
from fanin_nic.native.memory import (
    copy,
    fill_zero,
    full_fence,
    load_acquire,
    load_relaxed,
    load_u32,
    record_at,
    store_release,
    store_u64,
)
from fanin_wire import abi
from fanin_wire.abi import WqeFlag
from fanin_wire.limits import MAX_LANES

UNDER_WAY = abi.SQ_DEPTH - 1  # requests of one queue: a lane's ring has room for all and a query
SPLITTER = np.dtype(
    [
        ("lanes", "u4"),
        ("queues", "u4"),  # 1 + the highest queue in use
        ("overruns", "u4"),  # queues that have overrun since Python looked
        ("reach", "u4"),  # lanes from 0 on for this turn's requests
        ("cq_overflows", "u8"),
        ("queue_table", "u8"),  # address of SPLIT_QUEUE [queues of an engine]
        ("doorbell_table", "u8"),  # address of LANE_DOORBELL [lanes]
        ("cqe", abi.CQE),
    ],
    align=True,
)
# A client's request in flight, or a query that not all lanes have answered
REQUEST = np.dtype(
    [
        ("wr_id", "u8"),
        ("byte_length", "u8"),  # of the parts that are complete
        ("missing", "u8"),
        ("positions", "u4"),
        ("jid", "u4"),
        ("mid", "u4"),
        ("lost_device", "u4"),
        ("parts", "u4"),  # bitmap of the lanes whose part is missing
        ("status", "u1"),  # of the first failed part
        ("missing_kind", "u1"),
        ("opcode", "u1"),  # of the client's WQE; of a queue's `query`, 0: none
        ("signaled", "u1"),
    ],
    align=True,
)
SPLIT_QUEUE = np.dtype(
    [
        ("send_ring", "u8"),  # address of the client's; 0: no queue
        ("completion_ring", "u8"),
        ("qp", "u4"),
        ("overrun", "u4"),  # 1: the client's completion ring had no room; its job ends
        ("slots", "u4"),  # N for the client; 0: not in a job
        ("position", "u4"),  # of the client's next segment
        ("head", "u4"),  # number of the oldest request in flight
        ("given", "u4"),  # number of the oldest request that the lanes lack
        ("tail", "u4"),
        ("stored", "u4"),  # 1: the client's ring has completions of which it was not told
        ("lane_send_ring", "u8", (MAX_LANES,)),  # addresses; within this process, else as for a client
        ("lane_completion_ring", "u8", (MAX_LANES,)),
        ("lane_slots", "u4", (MAX_LANES,)),  # N of each lane
        ("lane_position", "u4", (MAX_LANES,)),  # of each lane's next segment
        ("query", REQUEST),
        ("requests", REQUEST, (abi.SQ_DEPTH,)),
        ("wqes", abi.WQE, (abi.SQ_DEPTH,)),  # of the requests, and the client's next one behind them
    ],
    align=True,
)
LANE_DOORBELL = np.dtype(
    [
        ("doorbell", "u8"),  # address of the DOORBELL that the sleeper sets
        ("eventfd", "i4"),
    ],
    align=True,
)
CQE_SCRATCH = np.uint64(SPLITTER.fields["cqe"][1])  # type: ignore[index]
QUERY = np.uint64(SPLIT_QUEUE.fields["query"][1])  # type: ignore[index]
REQUESTS = np.uint64(SPLIT_QUEUE.fields["requests"][1])  # type: ignore[index]
WQES = np.uint64(SPLIT_QUEUE.fields["wqes"][1])  # type: ignore[index]
QUEUE_SIZE = np.uint64(SPLIT_QUEUE.itemsize)
REQUEST_SIZE = np.uint64(REQUEST.itemsize)
LANE_DOORBELL_SIZE = np.uint64(LANE_DOORBELL.itemsize)
EVENT_SIZE = np.uint64(8)
_TABLES = ("cqe", "query", "requests", "wqes")  # reached by address
splitter_at = record_at(SPLITTER[[name for name in SPLITTER.names or () if name not in _TABLES]])
split_queue_at = record_at(SPLIT_QUEUE[[name for name in SPLIT_QUEUE.names or () if name not in _TABLES]])
request_at = record_at(REQUEST)
# What the splitter reads or changes in a WQE
wqe_at = record_at(abi.WQE[["opcode", "flags", "wr_id", "jid", "mid", "sid", "seg", "chunk", "segments"]])
cqe_at = record_at(abi.CQE)
doorbell_at = record_at(LANE_DOORBELL)


# Rows


@compiled
def queue_address(splitter, index):
    return splitter.queue_table + uint64(index) * QUEUE_SIZE


@compiled
def request_address(queue_place, number):
    """Address of the REQUEST with a free-running number, in the SPLIT_QUEUE at `queue_place`."""
    return queue_place + REQUESTS + (uint64(number) % uint64(abi.SQ_DEPTH)) * REQUEST_SIZE


@compiled
def wqe_address(queue_place, number):
    """Address of the WQE with a free-running number, in the SPLIT_QUEUE at `queue_place`."""
    return queue_place + WQES + (uint64(number) % uint64(abi.SQ_DEPTH)) * rings.WQE_BYTES


@compiled
def query_address(queue_place):
    return queue_place + QUERY


@compiled
def under_way(queue):
    """Incomplete requests of a queue."""
    return uint32(queue.tail - queue.head)


@compiled
def enter(address, wqe):
    """Store the members of a WQE that its completion needs in the REQUEST at `address`."""
    fill_zero(address, REQUEST_SIZE)
    request = request_at(address)
    request.wr_id = wqe.wr_id
    request.jid = wqe.jid
    request.mid = wqe.mid
    request.opcode = wqe.opcode
    request.signaled = wqe.flags & WqeFlag.SIGNALED


@compiled
def lanes_below(lane):
    """Bitmap of the lanes from 0 to `lane` - 1."""
    return (uint64(1) << uint64(lane)) - uint64(1)


# Rings: the splitter is the host of the lanes


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


# Doorbells: a word and an eventfd, as of a client


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

"""Splitting: the requests of the clients are cut into parts for the lanes.

A message of S segments goes to min(L, max(1, S div F)) lanes, in runs of whole segments that differ by at most one. F
is MIN_SEGMENTS, or less if MIN_BYTES are fewer chunks of the job. All ranks of a job must split a message alike, so
nothing else may decide: no load, lease, address or flag. Record 0004: why lanes are engines, and why this is before
them.
"""

import numpy as np
from numba import uint64

from fanin_nic.daemon.splitter.merge import ask_lanes, query_is_open
from fanin_nic.daemon.splitter.tables import (
    LANE_DOORBELL_SIZE,
    UNDER_WAY,
    enter,
    lanes_below,
    queue_address,
    request_address,
    request_at,
    ring_doorbell,
    split_queue_at,
    splitter_at,
    submit,
    under_way,
    wqe_address,
    wqe_at,
)
from fanin_nic.hostif.rings import consume, peek
from fanin_nic.native.compiled import compiled
from fanin_wire.abi import WqeFlag, WqeOpcode

# The least work for a lane: less is done before another core is awake
MIN_SEGMENTS, MIN_BYTES = np.uint64(16), np.uint64(65536)
MAX_SEGMENTS = np.uint64(0x3FFF_FFFF)  # of a message, as for the engine
LAST_SEGMENT = np.uint64(0xFFFF_FFFF)
POSTS_PER_TURN = 32


@compiled
def split(address):
    """Split the clients' new requests, and wake the lanes that get parts; returns the number of requests taken or
    given. address: of the SPLITTER."""
    splitter = splitter_at(uint64(address))
    splitter.reach = 1
    work = 0
    for index in range(splitter.queues):
        work += split_queue(splitter, queue_address(splitter, index))
    for lane in range(1, splitter.reach):
        ring_doorbell(splitter.doorbell_table + uint64(lane) * LANE_DOORBELL_SIZE)
    return work


@compiled
def requests_wait(address):
    """Whether a client has a request that may be taken now. address: of the SPLITTER."""
    splitter = splitter_at(uint64(address))
    for index in range(splitter.queues):
        place = queue_address(splitter, index)
        if offers(place):
            return True
    return False


@compiled
def split_queue(splitter, place):
    """Take and split requests of the queue at `place`, first those held by a fence; returns how many."""
    queue = split_queue_at(place)
    given = give(splitter, place)
    for taken in range(POSTS_PER_TURN):
        if not offers(place):
            return taken + given
        consume(queue.send_ring)
        wqe = wqe_at(wqe_address(place, queue.tail))
        if wqe.opcode == WqeOpcode.QUERY:
            ask_lanes(splitter, place)
        else:
            enter(request_address(place, queue.tail), wqe)
            queue.tail += 1
            give(splitter, place)
    return POSTS_PER_TURN + given


@compiled
def offers(place):
    """Whether the oldest request of the queue at `place` may be taken. It is copied to the place of the next request,
    and checked and used there, because the client may change its own copy. A query waits only for the query before
    it."""
    queue = split_queue_at(place)
    place_of_next = wqe_address(place, queue.tail)
    if not queue.send_ring or not peek(queue.send_ring, place_of_next):
        return False
    if wqe_at(place_of_next).opcode == WqeOpcode.QUERY:
        return not query_is_open(place)
    return under_way(queue) < UNDER_WAY


@compiled
def give(splitter, place):
    """Give the lanes the taken requests; a fenced one waits until all before it are complete. Returns how many."""
    queue = split_queue_at(place)
    given = 0
    while queue.given != queue.tail:
        if wqe_at(wqe_address(place, queue.given)).flags & WqeFlag.FENCE and queue.given != queue.head:
            break
        cut(splitter, place)
        queue.given += 1
        given += 1
    return given


@compiled
def cut(splitter, place):
    """Give each lane its part of the next request. An inconsistent one goes to lane 0, whose engine finds the fault."""
    queue = split_queue_at(place)
    wqe = wqe_at(wqe_address(place, queue.given))
    wqe.wr_id = queue.given
    wqe.flags |= WqeFlag.SIGNALED
    parts = uint64(1)
    if is_divisible(queue, wqe):
        parts = lanes_of(uint64(wqe.segments), uint64(wqe.chunk), splitter.lanes)
        give_parts(queue, wqe_address(place, queue.given), parts)
    else:
        submit(queue.lane_send_ring[0], wqe_address(place, queue.given))
    request_at(request_address(place, queue.given)).parts = lanes_below(parts)
    splitter.reach = max(uint64(splitter.reach), parts)


@compiled
def is_divisible(queue, wqe):
    """Whether an unchecked request is a collective of a job with divisible segments."""
    segments = uint64(wqe.segments)
    return (
        wqe.opcode == WqeOpcode.COLLECTIVE
        and queue.slots != 0
        and segments <= MAX_SEGMENTS
        and uint64(wqe.sid) + segments <= LAST_SEGMENT
    )


@compiled
def lanes_of(segments, chunk, lanes):
    """Number of lanes for a message of `segments` segments. A chunk of 0, which the engine will refuse, counts as 1."""
    fewest = max(uint64(1), min(MIN_SEGMENTS, MIN_BYTES // max(uint64(1), chunk)))
    return max(uint64(1), min(uint64(lanes), segments // fewest))


@compiled
def give_parts(queue, place, parts):
    """Give each lane the WQE at `place` with its segments. A request out of step in the client's stream stays so in
    those of the lanes."""
    wqe = wqe_at(place)
    sid, segments = wqe.sid, uint64(wqe.segments)
    out_of_step = wqe.seg ^ (queue.position & (queue.slots - 1))
    for lane in range(parts):
        first, end = segments * lane // parts, segments * (lane + uint64(1)) // parts
        wqe.sid = sid + first
        wqe.segments = end - first
        wqe.seg = queue.lane_position[lane] & (queue.lane_slots[lane] - 1)
        if out_of_step:
            wqe.seg ^= 1
        queue.lane_position[lane] += end - first
        submit(queue.lane_send_ring[lane], place)
    queue.position += segments

"""Requests of the clients, cut for the lanes.

A message of S segments goes to min(L, max(1, S div FEWEST_SEGMENTS)) lanes, in runs of whole segments that differ by
at most one. All ranks of a job must cut alike, so nothing else may decide: no load, no lease, no address.
"""

from __future__ import annotations

import numpy as np
from numba import uint32, uint64

from fanin_nic.daemon.lanes.bell import ring_bell
from fanin_nic.daemon.lanes.host_rings import submit
from fanin_nic.daemon.lanes.tables import (
    BELL_SIZE,
    REQUEST_SIZE,
    UNDER_WAY,
    WQE_SCRATCH,
    queue_address,
    request_address,
    request_at,
    split_queue_at,
    splitter_at,
)
from fanin_nic.engine.control.posting import SIGNALED, positions_of, wqe_at
from fanin_nic.hostif.rings import fetch, pending
from fanin_nic.native.compiled import compiled
from fanin_nic.native.memory import address_of, fill_zero

FEWEST_SEGMENTS = np.uint64(16)  # of a lane: fewer are done before another core is awake
MOST_SEGMENTS = np.uint64(0x3FFF_FFFF)  # of a message, as for the engine
POSTS_PER_TURN = 32


@compiled
def split(address):
    """Cut what the clients have posted, and wake the lanes for it. Returns how many requests. `address`: SPLITTER."""
    splitter = splitter_at(uint64(address))
    taken = 0
    for index in range(splitter.queues):
        taken += split_queue(splitter, uint64(address) + WQE_SCRATCH, queue_address(splitter, index))
    if taken:
        for lane in range(1, splitter.lanes):
            ring_bell(splitter.bell_table + uint64(lane) * BELL_SIZE)
    return taken


@compiled
def requests_wait(address):
    """Whether a client has posted a request that there is room for. `address`: SPLITTER."""
    splitter = splitter_at(uint64(address))
    for index in range(splitter.queues):
        queue = split_queue_at(queue_address(splitter, index))
        if queue.send_ring and uint32(queue.tail - queue.head) < UNDER_WAY and pending(queue.send_ring):
            return True
    return False


@compiled
def split_queue(splitter, scratch, place):
    """The requests of the queue at `place`, as long as there is room for them; how many."""
    queue = split_queue_at(place)
    if not queue.send_ring:
        return 0
    for taken in range(POSTS_PER_TURN):
        if uint32(queue.tail - queue.head) == UNDER_WAY or not fetch(queue.send_ring, scratch):
            return taken
        cut(splitter, queue, place, scratch)
    return POSTS_PER_TURN


@compiled
def cut(splitter, queue, place, scratch):
    """Enter the request at `scratch`, and give each lane its part. What makes no sense goes to lane 0 as it is: the
    engine there knows why it is wrong."""
    wqe = wqe_at(scratch)
    request = request_at(request_address(place, queue.tail))
    enter(request, wqe)
    wqe.wr_id = queue.tail
    wqe.flags |= SIGNALED
    if is_divisible(queue, wqe):
        segments = positions_of(wqe)
        request.parts = lanes_of(segments, splitter.lanes)
        give_parts(queue, wqe, scratch, segments, uint64(request.parts))
    else:
        request.parts = 1
        submit(queue.lane_send_ring[0], scratch)
    queue.tail += 1


@compiled
def enter(request, wqe):
    """Remember what the completion of a request says, whatever becomes of its parts."""
    fill_zero(address_of(request), REQUEST_SIZE)
    request.wr_id = wqe.wr_id
    request.jid = wqe.jid
    request.mid = wqe.mid
    request.opcode = wqe.opcode
    request.signaled = wqe.flags & SIGNALED


@compiled
def is_divisible(queue, wqe):
    """Whether a request belongs to a job and says how many segments it has."""
    return queue.slots != 0 and wqe.chunk == queue.chunk and positions_of(wqe) <= MOST_SEGMENTS


@compiled
def lanes_of(segments, lanes):
    """How many lanes a message of so many segments goes to."""
    return max(uint64(1), min(uint64(lanes), segments // FEWEST_SEGMENTS))


@compiled
def give_parts(queue, wqe, scratch, segments, parts):
    """Make `wqe` each lane's part in turn. A request that is out of step in the client's stream stays so in theirs."""
    length, sid, offset, chunk = wqe.length, wqe.sid, wqe.offset, uint64(wqe.chunk)
    out_of_step = wqe.seg ^ (queue.position & (queue.slots - 1))
    for lane in range(parts):
        first, end = segments * lane // parts, segments * (lane + uint64(1)) // parts
        wqe.sid = sid + first
        wqe.offset = offset + first * chunk
        wqe.length = (length if end == segments else end * chunk) - first * chunk
        wqe.seg = queue.lane_position[lane] & (queue.lane_slots[lane] - 1)
        if out_of_step:
            wqe.seg ^= 1
        queue.lane_position[lane] += end - first
        submit(queue.lane_send_ring[lane], scratch)
    queue.position += segments

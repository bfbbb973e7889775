"""Ordinary traffic in the loop of a lane: packets and work requests into the transport, its actions out (step S5).

A turn is short, so that collectives and ordinary traffic alternate on the port. Only requests to receive are taken
without limit, because a packet must find those posted before it: up to a full queue for each queue pair and shared
receive queue.
"""

from numba import int64, uint32

from fanin_nic.daemon.loop.fair_turns import ordinary_held
from fanin_nic.daemon.loop.lane_record import ORDINARY_RINGS, RECEIVE_WQE_SCRATCH, SEND_WQE_SCRATCH
from fanin_nic.daemon.loop.ordinary_actions import perform
from fanin_nic.daemon.loop.tapped import move_record, take_ordinary_tapped
from fanin_nic.engine.records.received import RECEIVED_SIZE, received_at
from fanin_nic.hostif.rings import fetch_ordinary, pending_ordinary
from fanin_nic.native.compiled import compiled
from fanin_nic.native.memory import address_of, copy, load_u8, load_u64, record_at
from fanin_nic.native.profile import Stage, lap
from fanin_nic.port.descriptors import PORT
from fanin_nic.transport import events
from fanin_nic.transport.records.accessors import U64, transport_at
from fanin_wire.abi import ORDINARY_DEPTH, RECEIVE_WQE, SEND_WQE
from fanin_wire.abi import SHARED_DEPTH as MAX_SHARED
from fanin_wire.fields import FIRST_OFFLOAD_OPCODE

TURNS = 4  # of queue pairs in a turn of the lane; each sends up to events.TURN answers and as many requests
POSTS_PER_TURN = 32
RINGS_SIZE = U64(ORDINARY_RINGS.itemsize)
DEPTH, SHARED_DEPTH = uint32(ORDINARY_DEPTH), uint32(MAX_SHARED)  # of rings
SEND_WQE_SIZE, RECEIVE_WQE_SIZE = U64(SEND_WQE.itemsize), U64(RECEIVE_WQE.itemsize)

rings_at = record_at(ORDINARY_RINGS)
port_at = record_at(PORT)


@compiled
def take_ordinary(lane, table, packets, now):
    """Give the transport the ordinary packets among the first `packets` of a table of RECEIVED, whose other entries are
    lost. Receive requests that were posted before the other side sent are taken first."""
    t = transport_at(lane.transport)
    take_shared(lane, now)
    for index in range(lane.ordinary_end):
        rings = rings_at(lane.ordinary_rings + U64(index) * RINGS_SIZE)
        if rings.send:
            take_receives(lane, index, rings.receive, now)
    tap = port_at(lane.port).tap
    count, taken = gather(table, packets, tap), int64(0)
    while taken < count:
        if tap:
            taken = take_ordinary_tapped(lane, t, table, taken, count, tap, now)
        else:
            taken = events.packets(lane.transport, table, taken, count, now)
        lap(lane.profile, Stage.ORDINARY)
        perform(lane, t, now)


@compiled
def gather(table, packets, tap):
    """Move the entries of ordinary packets to the front of a table of RECEIVED; returns how many there are."""
    count = int64(0)
    for index in range(packets):
        place = table + U64(index) * RECEIVED_SIZE
        if load_u8(received_at(place).address) < FIRST_OFFLOAD_OPCODE:
            if index != count:
                copy(table + U64(count) * RECEIVED_SIZE, place, RECEIVED_SIZE)
                if tap:
                    move_record(tap, count, index)
            count += 1
    return count


@compiled
def turn_ordinary(lane, now):
    """Requests in, turns of queue pairs, timers, actions out; returns how much work there was."""
    t = transport_at(lane.transport)
    work = take_requests(lane, now)
    served = 0 if ordinary_held(lane) else events.serve(lane.transport, TURNS, now)
    if served:
        lap(lane.profile, Stage.ORDINARY)
        perform(lane, t, now)
    if now >= t.next_deadline:
        events.tick(lane.transport, now)
        lap(lane.profile, Stage.ORDINARY)
        perform(lane, t, now)
        work += 1
    return work + served


@compiled
def take_requests(lane, now):
    """Post the work requests of the rings, as far as the queues have room; returns how many."""
    taken, first, end = take_shared(lane, now), int64(lane.ordinary_first), int64(lane.ordinary_end)
    for step in range(end):
        index = (first + step) % end
        rings = rings_at(lane.ordinary_rings + U64(index) * RINGS_SIZE)
        if rings.send:
            taken += take_receives(lane, index, rings.receive, now)
            taken += take_sends(lane, index, rings.send, now)
    if taken:
        lane.ordinary_first = (first + 1) % end
    return taken


@compiled
def take_sends(lane, index, ring, now):
    """Post requests to send of one ring, up to POSTS_PER_TURN; returns how many."""
    wqe = address_of(lane) + SEND_WQE_SCRATCH
    for number in range(POSTS_PER_TURN):
        if not events.can_post_send(lane.transport, index) or not fetch_ordinary(ring, wqe, SEND_WQE_SIZE, DEPTH):
            return number
        events.post_send(lane.transport, index, wqe, now)
    return POSTS_PER_TURN


@compiled
def take_receives(lane, index, ring, now):
    """Post all requests to receive of one ring, as far as the queue has room; returns how many."""
    wqe, taken = address_of(lane) + RECEIVE_WQE_SCRATCH, 0
    while events.can_post_receive(lane.transport, index) and fetch_ordinary(ring, wqe, RECEIVE_WQE_SIZE, DEPTH):
        events.post_receive(lane.transport, index, wqe, now)
        taken += 1
    return taken


@compiled
def take_shared(lane, now):
    """Post all requests of the rings of shared receive queues, as far as these have room; returns how many."""
    wqe, taken = address_of(lane) + RECEIVE_WQE_SCRATCH, 0
    for index in range(lane.shared_end):
        ring = load_u64(lane.shared_rings + U64(index) * U64(8))
        while (
            ring
            and events.can_post_shared(lane.transport, index)
            and fetch_ordinary(ring, wqe, RECEIVE_WQE_SIZE, SHARED_DEPTH)
        ):
            events.post_shared(lane.transport, index, wqe, now)
            taken += 1
    return taken


@compiled
def shared_waits(lane):
    """Whether the ring of a shared receive queue has a request, and the queue room for it."""
    for index in range(lane.shared_end):
        ring = load_u64(lane.shared_rings + U64(index) * U64(8))
        if ring and events.can_post_shared(lane.transport, index) and pending_ordinary(ring, SHARED_DEPTH):
            return True
    return False


@compiled
def ordinary_waits(lane):
    """Whether a ring has a request, and its queue room for it, or a queue pair has work."""
    t = transport_at(lane.transport)
    if t.ready_head != t.ready_tail or shared_waits(lane):
        return True
    for index in range(lane.ordinary_end):
        rings = rings_at(lane.ordinary_rings + U64(index) * RINGS_SIZE)
        if not rings.send:
            continue
        if events.can_post_send(lane.transport, index) and pending_ordinary(rings.send, DEPTH):
            return True
        if events.can_post_receive(lane.transport, index) and pending_ordinary(rings.receive, DEPTH):
            return True
    return False

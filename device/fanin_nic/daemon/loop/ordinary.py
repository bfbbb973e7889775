"""Ordinary traffic in the loop of a lane: packets and work requests into the transport, its actions out (step S5).

A turn is short, so that collectives and ordinary traffic alternate on the port. Only requests to receive are taken
without limit, because a packet must find those posted before it: up to a full queue for each queue pair and shared
receive queue.

Actions are performed in the order of `transport.records.actions`: memory, packets, completions. Atomics are atomic
among each other, since one thread performs all of a device, but not with accesses of programs.
"""

from numba import int64, uint32

from fanin_nic.daemon.loop.action_executor import descriptor, watch_port
from fanin_nic.daemon.loop.fair_turns import ordinary_held
from fanin_nic.daemon.loop.lane_record import ORDINARY_RINGS, RECEIVE_WQE_SCRATCH, SEND_WQE_SCRATCH, WC_SCRATCH
from fanin_nic.daemon.loop.tapped import move_record, take_ordinary_tapped
from fanin_nic.engine.records.actions import RECEIVED_SIZE, received_at
from fanin_nic.hostif.rings import fetch_ordinary, pending_ordinary, store, wake
from fanin_nic.native.compiled import compiled
from fanin_nic.native.libc import pread, pwrite, stack_bytes
from fanin_nic.native.memory import (
    address_of,
    copy,
    fill_zero,
    full_fence,
    load_u8,
    load_u64,
    record_at,
    store_be64,
    store_u8,
    store_u64,
)
from fanin_nic.native.profile import Stage, lap
from fanin_nic.port.descriptors import PORT
from fanin_nic.port.ordinary import close_frame, drop_frame, flush_frames, open_frame
from fanin_nic.transport import events
from fanin_nic.transport.records.accessors import U64, action_at, transport_at
from fanin_nic.transport.records.actions import ACTION, ActionKind
from fanin_wire import abi
from fanin_wire.abi import ORDINARY_DEPTH, RECEIVE_WQE, SEND_WQE, CompletionKind
from fanin_wire.abi import SHARED_DEPTH as MAX_SHARED
from fanin_wire.fields import FIRST_OFFLOAD_OPCODE
from fanin_wire.rocev2 import ATOMIC_BYTES
from fanin_wire.verbs import CompletionStatus

TURNS = 4  # of queue pairs in a turn of the lane; each sends up to events.TURN answers and as many requests
POSTS_PER_TURN = 32
DEPTH, SHARED_DEPTH = uint32(ORDINARY_DEPTH), uint32(MAX_SHARED)  # of rings
RINGS_SIZE = U64(ORDINARY_RINGS.itemsize)
SEND_WQE_SIZE, RECEIVE_WQE_SIZE = U64(SEND_WQE.itemsize), U64(RECEIVE_WQE.itemsize)
WC_SIZE = U64(abi.WC.itemsize)
HEADER_PLACE = U64(ACTION.fields["header"][1])  # type: ignore[index]
rings_at = record_at(ORDINARY_RINGS)
wc_at = record_at(abi.WC)
port_at = record_at(PORT)


# Requests


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


@compiled
def shared_waits(lane):
    """Whether the ring of a shared receive queue has a request, and the queue room for it."""
    for index in range(lane.shared_end):
        ring = load_u64(lane.shared_rings + U64(index) * U64(8))
        if ring and events.can_post_shared(lane.transport, index) and pending_ordinary(ring, SHARED_DEPTH):
            return True
    return False


# Packets that have come


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


# Actions


@compiled
def perform(lane, t, now):
    """Perform all actions, and clear the table."""
    count = int64(t.action_count)
    if count == 0:
        return
    change_memory(lane, t, count, now)
    send_packets(lane, t, count, now)
    store_completions(lane, t, int64(t.action_count), now)  # an unreadable packet adds some
    t.action_count = 0


@compiled
def change_memory(lane, t, count, now):
    """WRITEs and atomics, in order."""
    changed = 0
    for index in range(count):
        action = action_at(t, U64(index))
        done = True
        if action.kind == ActionKind.WRITE:
            done = write_memory(lane.memory_fds, action)
        elif action.kind == ActionKind.COMPARE_SWAP or action.kind == ActionKind.FETCH_ADD:
            done = perform_atomic(lane.memory_fds, action, action.kind == ActionKind.FETCH_ADD)
        else:
            continue
        changed = 1
        if not done:
            fail_queue_pair(lane, t, count, int64(action.queue_pair), now)
    if changed:
        lap(lane.profile, Stage.DMA_WRITE)


@compiled
def send_packets(lane, t, count, now):
    """Build the packets, and send them."""
    port = port_at(lane.port)
    port.send_waits = 0  # however often the frames are full
    for index in range(count):
        action = action_at(t, U64(index))
        if action.kind != ActionKind.SEND or put_together(lane, t, port, index):
            continue
        drop_frame(port)
        if action.of_request:
            lane.dma_errors += U64(1)
            events.fail_unreadable(lane.transport, index, now)
        else:
            fail_queue_pair(lane, t, count, int64(action.queue_pair), now)
    if port.frame_messages and flush_frames(port):
        watch_port(lane, now)


@compiled
def put_together(lane, t, port, index):
    """One packet. False: its payload is unreadable."""
    action = action_at(t, U64(index))
    pieces, size = int64(action.pieces), int64(action.header_length)
    for number in range(pieces):
        size += int64(action_at(t, U64(index + number)).length)
    padded = (size + 3) & ~3
    place = open_frame(port, action.destination, padded)
    if place == U64(0):
        return True
    copy(place, address_of(action) + HEADER_PLACE, U64(action.header_length))
    at = place + U64(action.header_length)
    for number in range(pieces):
        piece = action_at(t, U64(index + number))
        if not read_memory(lane.memory_fds, piece, at):
            return False
        at += U64(piece.length)
    for _ in range(padded - size):
        store_u8(at, 0)
        at += U64(1)
    close_frame(port)
    return True


@compiled
def store_completions(lane, t, count, now):
    """Store the completions, then wake those who wait for them."""
    stored = 0
    for index in range(count):
        action = action_at(t, U64(index))
        if action.kind == ActionKind.COMPLETE and store_completion(lane, action, now):
            stored = 1
    if not stored:
        return
    full_fence()
    for index in range(count):
        action = action_at(t, U64(index))
        if action.kind == ActionKind.COMPLETE:
            wake_ring(ring_of(lane, action))
    lap(lane.profile, Stage.COMPLETE)


@compiled
def store_completion(lane, action, now):
    """Store a completion. Without room the queue pair ends in error: its program can not know what happened."""
    ring = ring_of(lane, action)
    if not ring:
        return False
    address = address_of(lane) + WC_SCRATCH
    fill_zero(address, WC_SIZE)
    wc = wc_at(address)
    wc.wr_id = action.wr_id
    wc.byte_length = action.byte_length
    wc.immediate = action.immediate
    wc.source_qpn = action.source_qpn
    wc.source = action.source
    wc.qpn = action.qpn
    wc.unsolicited = action.solicited == 0
    wc.status = action.status
    wc.opcode = action.opcode
    wc.flags = action.flags
    wc.kind = CompletionKind.ORDINARY
    if not store(ring, address):
        lane.cq_overflows += U64(1)
        events.fail(lane.transport, int64(action.queue_pair), now)
    return True


@compiled
def wake_ring(ring):
    """Wake those who wait for a completion ring, unless it is gone."""
    if ring:
        wake(ring)


@compiled
def ring_of(lane, action):
    """Address of the completion ring of a COMPLETE; 0: it is gone."""
    return load_u64(lane.ordinary_completion_rings + U64(action.completion_queue) * U64(8))


@compiled
def fail_queue_pair(lane, t, count, queue_pair, now):
    """Process memory can not be changed, or read for the other side: its queue pair ends in error. It sends nothing
    more, and its new completions become failures."""
    lane.dma_errors += U64(1)
    events.fail(lane.transport, queue_pair, now)
    for index in range(count):
        action = action_at(t, U64(index))
        if int64(action.queue_pair) != queue_pair:
            continue
        if action.kind == ActionKind.COMPLETE:
            if action.status == 0:
                action.status = CompletionStatus.LOC_PROT_ERR
        else:
            action.kind = ActionKind.NONE


# Memory


@compiled
def write_memory(memory_fds, action):
    """Write the payload of an action to its memory. False: not, or not wholly."""
    if not action.process:
        copy(action.remote, action.payload, U64(action.length))
        return True
    length = U64(action.length)
    return U64(pwrite(descriptor(memory_fds, action), action.payload, length, int(action.remote))) == length


@compiled
def read_memory(memory_fds, action, place):
    """Read the payload of an action to an address. False: not, or not wholly."""
    if not action.process:
        copy(place, action.payload, U64(action.length))
        return True
    length = U64(action.length)
    return U64(pread(descriptor(memory_fds, action), place, length, int(action.payload))) == length


@compiled
def perform_atomic(memory_fds, action, is_add):
    """Perform an atomic; the former value goes to the action's payload. False: the memory can not be reached."""
    word = stack_bytes(8)
    if not action.process:
        copy(word, action.remote, U64(ATOMIC_BYTES))
    elif pread(descriptor(memory_fds, action), word, U64(ATOMIC_BYTES), int(action.remote)) != ATOMIC_BYTES:
        return False
    before = load_u64(word)
    store_be64(action.payload, before)
    if not is_add and before != action.compare:
        return True
    store_u64(word, before + action.operand if is_add else action.operand)
    if not action.process:
        copy(action.remote, word, U64(ATOMIC_BYTES))
        return True
    return pwrite(descriptor(memory_fds, action), word, U64(ATOMIC_BYTES), int(action.remote)) == ATOMIC_BYTES

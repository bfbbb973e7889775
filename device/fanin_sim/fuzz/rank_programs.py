"""The programs of ranks: join, post each message when the send queue has room, leave when all requests have ended."""

from numba import int64, uint32, uint64

from fanin_nic.engine.records.accessors import engine_at, job_at, queue_at, wqe_at
from fanin_nic.engine.records.tables import JOIN_EVENT
from fanin_nic.native.memory import record_at, store_u8, store_u32
from fanin_sim.fuzz.checks import NOT_POSTED, OPEN, fail_rank, wake
from fanin_sim.fuzz.codes import EventKind, FaultKind, RankState
from fanin_sim.fuzz.device_events import finish
from fanin_sim.fuzz.faults import MICROSECOND, MILLISECOND, begin_event, fault_value, record_fault
from fanin_sim.fuzz.tables import message_row, rank_row, vertex_row
from fanin_sim.jit import internal
from fanin_sim.kernel.calls import call_event
from fanin_sim.kernel.event_queue import GAP, draw_below
from fanin_sim.kernel.trace import add_line
from fanin_wire import abi
from fanin_wire.abi import WqeFlag

WANTED_BLOCKS = uint64(abi.WQE.fields["address"][1] + abi.ADDRESS.fields["destination_blocks"][1])  # type: ignore[index]
JOIN_TIMEOUT = 30_000 * MILLISECOND  # for the answer to a JOIN
KEYS_PER_INCARNATION = 16  # distance of the keys of two incarnations
UNWRITTEN = 0xA5  # overwrites results before they are written
RANK_DELAYS = (300 * MICROSECOND, 30 * MILLISECOND, 300 * MILLISECOND, 3_000 * MILLISECOND)

join_at = record_at(JOIN_EVENT)


@internal
def next_step_delay(w, number):
    """ns until a rank takes its next step. A late rank takes much longer."""
    rank = rank_row(w.ranks, number)
    rank.steps += 1
    time = draw_below(w.seed, GAP, number, rank.steps, w.gap)
    value = fault_value(w, FaultKind.LATE_RANK, number, 0, 0, rank.steps)
    if value >= 0:
        time += (value >> 2) % RANK_DELAYS[value & 3]
        record_fault(w, FaultKind.LATE_RANK, number, 0, 0, rank.steps, value, w.now + time)
    return time


@internal
def join(w, number):
    """The rank joins. It stops waiting if no answer comes."""
    rank = rank_row(w.ranks, number)
    vertex = vertex_row(w.vertices, rank.vertex)
    rank.state = RankState.JOINING
    wake(w, number, w.now + JOIN_TIMEOUT)
    queue_at(engine_at(vertex.base), rank.queue).active = 1  # connects again if the device has restarted
    join_at(rank.join).slots = w.slots_offered
    join_at(rank.join).key = rank.key + w.incarnation * KEYS_PER_INCARNATION
    add_line(w, EventKind.JOIN, rank.vertex, number, 0, 0, 0, 0, 0)
    call_event(w.on_join, (int64(vertex.base), rank.queue, int64(rank.join), w.now))
    finish(w, rank.vertex)


@internal
def leave(w, number):
    rank = rank_row(w.ranks, number)
    rank.generation += 1
    if rank.state == RankState.JOINING:  # no answer has come
        fail_rank(w, number)
    add_line(w, EventKind.LEAVE, rank.vertex, number, 0, 0, 0, 0, 0)
    call_event(w.on_leave, (int64(vertex_row(w.vertices, rank.vertex).base), rank.queue, 0, w.now))
    finish(w, rank.vertex)


@internal
def post(w, number):
    """The rank posts its next message. Like the driver, it fills in the first slot."""
    rank = rank_row(w.ranks, number)
    message = message_row(w.messages, rank.first_message + rank.posted)
    e = engine_at(vertex_row(w.vertices, rank.vertex).base)
    record = queue_at(e, rank.queue)
    if record.job:
        wqe_at(message.wqe).seg = uint64(record.position) & (uint64(job_at(e, record.job - 1).slots) - uint64(1))
    message.is_signaled = 1 if rank.posted == count_of(w, rank) - 1 else 1 - message.is_unsignaled
    wqe_at(message.wqe).flags = WqeFlag.SIGNALED if message.is_signaled else 0
    wqe_at(message.wqe).deadline_ms = w.deadline_ms
    store_u32(message.wqe + WANTED_BLOCKS, uint32(0 if message.arrived else message.wanted_blocks))
    message.status = OPEN
    add_line(w, EventKind.POST, rank.vertex, number, 0, rank.posted, 0, 0, 0)
    rank.posted += 1
    w.open_requests += 1
    w.quiet_since = max(w.quiet_since, w.now)
    call_event(w.on_post, (int64(arena_of(w, rank)), rank.queue, int64(message.wqe), w.now))
    w.positions = max(w.positions, int64(uint64(record.position) - uint64(w.first_position)) & 0xFFFFFFFF)
    finish(w, rank.vertex)


@internal
def arena_of(w, rank):
    return vertex_row(w.vertices, rank.vertex).base


@internal
def has_room(w, rank):
    """Whether the send queue of a rank has room for another request."""
    e = engine_at(arena_of(w, rank))
    record = queue_at(e, rank.queue)
    return (int64(record.tail) - int64(record.head)) & 0xFFFFFFFF < int64(e.requests)


@internal
def count_of(w, rank):
    """The number of messages that a rank posts."""
    return min(rank.messages, w.message_limit)


@internal
def run(w, number):
    """A rank that has joined takes a step."""
    rank = rank_row(w.ranks, number)
    if rank.posted < count_of(w, rank) and has_room(w, rank):
        post(w, number)
        if rank.state == RankState.RUNNING:
            wake(w, number, w.now + next_step_delay(w, number))
        return
    if rank.posted == count_of(w, rank) and rank.ended == rank.posted:
        rank.state = RankState.LEAVING
        wake(w, number, w.now + next_step_delay(w, number))  # otherwise the next completion wakes it
    finish(w, rank.vertex)  # the event may have crashed another rank


@internal
def advance(w, number, generation):
    """A rank takes its next step, unless the event is out of date."""
    rank = rank_row(w.ranks, number)
    if rank.generation != generation or rank.state == RankState.DEAD or rank.state == RankState.GONE:
        return
    begin_event(w, rank.vertex)
    if not vertex_row(w.vertices, rank.vertex).alive:
        return
    if rank.state == RankState.DEAD:  # it has just died: the device tells the others now, as no event may follow
        finish(w, rank.vertex)
        return
    w.quiet_since = max(w.quiet_since, w.now)
    if rank.state == RankState.WAITING:
        join(w, number)
    elif rank.state == RankState.RUNNING:
        run(w, number)
    else:
        leave(w, number)


@internal
def start_rank(w, number, later):
    """Starts the program of a rank, in `later` ns."""
    rank = rank_row(w.ranks, number)
    rank.state = RankState.WAITING
    rank.has_failed = 0
    rank.posted = 0
    rank.ended = 0
    clear_results(w, rank)
    wake(w, number, w.now + later + next_step_delay(w, number))


@internal
def clear_results(w, rank):
    """Resets the messages of a rank, and overwrites their results."""
    for place in range(rank.messages):
        message = message_row(w.messages, rank.first_message + place)
        message.status = NOT_POSTED
        message.arrived = 0
        for offset in range(message.length):
            store_u8(message.result + uint64(offset), UNWRITTEN)
        if message.shared:
            store_u8(message.shared, 0)

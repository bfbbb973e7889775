"""Events of devices, given to the real engine, whose actions are executed and whose invariants are checked."""

from numba import int64, uint64

from fanin_nic.engine import events
from fanin_nic.engine.records.accessors import action_at, engine_at
from fanin_nic.engine.records.actions import ACTION, ActionKind
from fanin_nic.native.memory import address_of, copy, record_at
from fanin_sim.fabric.invariants import check
from fanin_sim.fuzz.checks import on_arrival, on_completion, on_notice, on_write, rank_of
from fanin_sim.fuzz.codes import EventKind, FaultKind, RankState, Violation
from fanin_sim.fuzz.faults import begin_event, crash_device, fault_value, record_fault
from fanin_sim.fuzz.network import send
from fanin_sim.fuzz.tables import rank_row, vertex_row
from fanin_sim.jit import internal
from fanin_sim.kernel import event_queue
from fanin_sim.kernel.calls import call_event
from fanin_sim.kernel.event_queue import LATENCY, PAUSE, RATE_SCALE, draw, draw_below
from fanin_sim.kernel.packets import data_of, release
from fanin_sim.kernel.tables import NEVER, event_row, packet_row
from fanin_sim.kernel.trace import add_line, report_violation
from fanin_wire.abi import Status

ACTION_SIZE = ACTION.itemsize
SLOWEST_READ = 50_000  # ns
MAX_PAUSE = 30_000  # ns
BUDGETS = (1, 4, 512, 512)  # segments of one call of serve
read_at = record_at(ACTION)


@internal
def arrive_batch(w, index, number):
    """A packet arrives at a device, with all others that arrive at the same time."""
    packet_arrives(w, index, number)
    while w.queue_size and w.violation == Violation.NOTHING:
        event = event_row(w.queue, 0)
        if event.time != w.now or event.target != index or event.kind != EventKind.PACKET:
            break
        other = int64(event.index)
        event_queue.drop_first(w)
        packet_arrives(w, index, other)
    vertex = vertex_row(w.vertices, index)
    if vertex.alive:
        call_event(w.on_batch_end, (int64(vertex.base), w.now))
        finish(w, index)


@internal
def packet_arrives(w, index, number):
    packet = packet_row(w.packets, number)
    vertex = vertex_row(w.vertices, index)
    add_line(w, EventKind.PACKET, packet.source, index, packet.opcode, packet.position, 1 - vertex.alive, 0, 0)
    if vertex.alive:
        w.deliveries += 1
        begin_event(w, index)
        source = vertex_row(w.vertices, packet.source).address
        call_event(w.on_packet, (int64(vertex.base), int64(data_of(w, number)), int64(packet.length), source, w.now))
        perform(w, index)
        if vertex.planned_crash:
            crash_device(w, index)
    release(w, number)


@internal
def finish_read(w, number, ordinal):
    """A DMA read of a rank's memory ends, with its data or with an error."""
    rank = rank_row(w.ranks, number)
    vertex = vertex_row(w.vertices, rank.vertex)
    if not vertex.alive or rank.state == RankState.DEAD or ordinal != rank.reads:
        return
    action = read_at(w.reads + uint64(number * ACTION_SIZE))
    value = fault_value(w, FaultKind.READ_FAILURE, number, 0, 0, ordinal)
    status = Status.SUCCESS
    if value >= 0:
        status = Status.LOCAL_PROTECTION_ERROR
        record_fault(w, FaultKind.READ_FAILURE, number, 0, 0, ordinal, value, w.now)
    add_line(w, EventKind.READ_DONE, rank.vertex, number, 0, int64(action.position), 0, status, ordinal)
    begin_event(w, rank.vertex)
    call_event(w.on_dma_done, dma_done_arguments(action, vertex.base, status, w.now))
    finish(w, rank.vertex)


@internal
def dma_done_arguments(action, base, status, now):
    """The arguments of the engine's event at the end of a DMA read."""
    entry, remote = int64(action.address_index), int64(action.remote)
    queue_index, position, count = int64(action.queue), int64(action.position), int64(action.count)
    return int64(base), queue_index, position, count, entry, remote, int64(status), int64(now)


@internal
def tick(w, index):
    vertex = vertex_row(w.vertices, index)
    add_line(w, EventKind.TIMER, index, index, 0, 0, 0, 0, 0)
    begin_event(w, index)
    missed = w.now - vertex.deadline
    if missed > int64(engine_at(vertex.base).keepalive):  # as the daemon does after it was stopped for a while
        call_event(w.on_note_stall, (int64(vertex.base), missed, w.now))
    call_event(w.on_tick, (int64(vertex.base), w.now))
    finish(w, index)


@internal
def serve(w, index):
    """Lets a device read from the queues of its ranks as far as it can, and sets its timer."""
    vertex = vertex_row(w.vertices, index)
    e = engine_at(vertex.base)
    budget = BUDGETS[draw(w.seed, PAUSE, index, -vertex.events) & 3]
    while vertex.alive and w.violation == Violation.NOTHING:
        served = call_event(w.on_serve, (int64(vertex.base), int64(budget), w.now))
        if served == 0 and e.action_count == 0:
            break
        perform(w, index)
    vertex.deadline = int64(min(uint64(NEVER), e.next_deadline))


@internal
def finish(w, index):
    """Executes the actions of an event. The device serves its send queues now, or after a random pause."""
    vertex = vertex_row(w.vertices, index)
    perform(w, index)
    if vertex.planned_crash:
        crash_device(w, index)
        return
    drawn = draw(w.seed, PAUSE, index, vertex.events)
    if drawn % RATE_SCALE < w.pauses:
        vertex.deadline = int64(min(uint64(NEVER), engine_at(vertex.base).next_deadline))
        event_queue.put(w, w.now + 1 + (drawn // RATE_SCALE) % MAX_PAUSE, EventKind.SERVE, index, 0, 0)
    else:
        serve(w, index)


@internal
def perform(w, index):
    """Executes the actions of device `index`, only some if it crashes in this event, then checks its slots."""
    vertex = vertex_row(w.vertices, index)
    e = engine_at(vertex.base)
    count = int64(e.action_count)
    if vertex.planned_crash:
        count = min(count, vertex.actions_left)
    for number in range(count):
        action = action_at(e, number)
        if action.kind == ActionKind.SEND:
            send(w, index, e, number)
        elif action.kind == ActionKind.REDUCE:
            reduce(w, index, number)
        elif action.kind == ActionKind.DMA_WRITE:
            on_write(w, index, action)
        elif action.kind == ActionKind.COMPLETE:
            on_completion(w, index, action)
        elif action.kind == ActionKind.NOTICE:
            on_notice(w, index, action)
        elif action.kind == ActionKind.ARRIVAL:
            on_arrival(w, index, action)
        elif action.kind == ActionKind.DMA_READ:
            read(w, index, action)
    e.action_count = 0
    broken = check(vertex.base, vertex.keys, vertex.positions)
    if broken:
        report_violation(w, broken, index, 0)


@internal
def reduce(w, index, number):
    """The REDUCE action `number` of device `index`, executed only if all its writes are allowed."""
    vertex = vertex_row(w.vertices, index)
    e = engine_at(vertex.base)
    action = action_at(e, number)
    first, sound = number + 1 + int64(action.count), True
    for target in range(first, first + int64(action.targets)):
        sound &= on_write(w, index, action_at(e, target))
    if sound:
        events.reduce(vertex.base, number)


@internal
def read(w, vertex, action):
    """A DMA_READ: its data arrive later."""
    number = rank_of(w, vertex, int64(action.queue))
    rank = rank_row(w.ranks, number)
    copy(w.reads + uint64(number * ACTION_SIZE), address_of(action), uint64(ACTION_SIZE))
    rank.reads += 1
    add_line(w, EventKind.READ, vertex, number, 0, int64(action.position), 0, int64(action.count), rank.reads)
    delay = draw_below(w.seed, LATENCY, number, rank.reads, SLOWEST_READ)
    event_queue.put(w, w.now + delay, EventKind.READ_DONE, number, rank.reads, 0)

"""Executes the actions of a device, then checks its invariants."""

from numba import int64, uint64

from fanin_nic.engine import events
from fanin_nic.engine.records.accessors import action_at, engine_at
from fanin_nic.engine.records.actions import ACTION, ActionKind
from fanin_nic.native.memory import address_of, copy
from fanin_sim.fabric.invariants import check
from fanin_sim.fuzz.codes import EventKind
from fanin_sim.fuzz.network import send
from fanin_sim.fuzz.request_checks import answer, arrive, complete, rank_of, write
from fanin_sim.fuzz.tables import rank_row, vertex_row
from fanin_sim.jit import internal
from fanin_sim.kernel import event_queue
from fanin_sim.kernel.counter_rng import LATENCY, draw_below
from fanin_sim.kernel.trace import add_line, report_violation

ACTION_SIZE = ACTION.itemsize
SLOWEST_READ = 50_000  # ns


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


@internal
def reduce(w, index, number):
    """The REDUCE action `number` of device `index`, executed only if all its writes are allowed."""
    vertex = vertex_row(w.vertices, index)
    e = engine_at(vertex.base)
    action = action_at(e, number)
    first, sound = number + 1 + int64(action.count), True
    for target in range(first, first + int64(action.targets)):
        sound &= write(w, index, action_at(e, target))
    if sound:
        events.reduce(vertex.base, number)


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
            write(w, index, action)
        elif action.kind == ActionKind.COMPLETE:
            complete(w, index, action)
        elif action.kind == ActionKind.NOTICE:
            answer(w, index, action)
        elif action.kind == ActionKind.ARRIVAL:
            arrive(w, index, action)
        elif action.kind == ActionKind.DMA_READ:
            read(w, index, action)
    e.action_count = 0
    broken = check(vertex.base, vertex.keys, vertex.positions)
    if broken:
        report_violation(w, broken, index, 0)

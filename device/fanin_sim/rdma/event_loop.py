"""The event loop: runs a schedule from its first event to its last, and checks it."""

from numba import int64, uint64

from fanin_nic.native.memory import copy, fill_zero
from fanin_sim.jit import compiled, internal
from fanin_sim.kernel import event_queue
from fanin_sim.kernel.packets import clear
from fanin_sim.kernel.tables import NEVER, event_row, outcome_of
from fanin_sim.kernel.trace import add_line, report_violation
from fanin_sim.rdma.codes import EventKind, FaultKind, Violation
from fanin_sim.rdma.devices import arrive, deadline_of, serve, tick
from fanin_sim.rdma.faults import note_fault
from fanin_sim.rdma.final_check import check_end
from fanin_sim.rdma.programs import abandon, begin, connect, give_up, reconnect, step
from fanin_sim.rdma.restart import empty, restart
from fanin_sim.rdma.tables import COUNTERS, WORLD, device_row, side_row, world_row
from fanin_sim.rdma.workload import make_wrong

OUTCOME_START, OUTCOME_SIZE = outcome_of(WORLD)
START = 1_000_000_000  # ns
MAX_EVENTS = 100_000


@internal
def prepare(w):
    """Reset everything to the state before the schedule, and connect all sides."""
    links = w.device_count * w.device_count
    clear(w, OUTCOME_START, OUTCOME_SIZE, (links, links * COUNTERS))
    w.now = START
    for index in range(w.device_count):
        device = device_row(w.devices, index)
        device.inbox_count = 0
        empty(w, index)
        device.boots = 0
        device.turns = 0
        device.tickets = 0
        fill_zero(device.memory, uint64(device.memory_size))
    for side in range(w.side_count):
        row = side_row(w.sides, side)
        row.generation = 0
        row.steps = 0
        row.numbers = 0
    begin(w)
    make_wrong(w)
    for index in range(w.device_count):
        device = device_row(w.devices, index)
        copy(device.model, device.memory, uint64(device.memory_size))
    for connection in range(w.side_count >> 1):
        connect(w, connection)


@internal
def handle(w):
    event = event_row(w.queue, 0)
    w.now = max(w.now, event.time)
    kind, target, index, generation = event.kind, int64(event.target), int64(event.index), int64(event.generation)
    event_queue.drop_first(w)
    if kind == EventKind.PACKET:
        arrive(w, target, index)
    elif kind == EventKind.SERVE:
        if device_row(w.devices, target).boots == generation:
            serve(w, target)
    elif kind == EventKind.PROGRAM:
        step(w, target, generation)
    elif kind == EventKind.GIVEN_UP:
        add_line(w, EventKind.GIVEN_UP, target, 0, 0, 0, 0, 0, 0)
        give_up(w, target, generation)
    elif kind == EventKind.CONNECTED:
        reconnect(w, target, generation)


@internal
def next_timer(w):
    """The device whose timer expires first; -1 if no timer runs."""
    first = -1
    for index in range(w.device_count):
        if deadline_of(w, index) < NEVER and (first < 0 or deadline_of(w, index) < deadline_of(w, first)):
            first = index
    return first


@internal
def advance(w):
    """Handle the next event or timer, and the planned faults that are due. Returns False if nothing is left."""
    w.events += 1
    if w.restart_device >= 0 and w.events >= w.restart_at and w.happened[FaultKind.RESTART] == 0:
        restart(w, w.restart_device)
    if w.abandon_connection >= 0 and w.events >= w.abandon_at and w.happened[FaultKind.ABANDON] == 0:
        note_fault(w, FaultKind.ABANDON, w.abandon_connection)
        abandon(w, w.abandon_connection)
    timer = next_timer(w)
    expires = deadline_of(w, timer) if timer >= 0 else NEVER
    if w.queue_size and event_row(w.queue, 0).time <= expires:
        handle(w)
    elif timer >= 0:
        w.now = max(w.now, expires)
        add_line(w, EventKind.TIMER, timer, 0, 0, 0, 0, 0, 0)
        tick(w, timer)
    else:
        return False
    return True


@compiled
def run_schedule(world):
    """Run the schedule of the WORLD record at an address, which gets the outcome."""
    w = world_row(uint64(world), 0)
    prepare(w)
    while w.violation == Violation.NOTHING and advance(w):
        if w.events > MAX_EVENTS:
            report_violation(w, Violation.LIVELOCK, 0, 0)
    if w.violation == Violation.NOTHING:
        check_end(w)
    if w.violation != Violation.NOTHING:
        add_line(w, EventKind.VIOLATION_FOUND, w.location, 0, 0, 0, 0, w.violation, 0)

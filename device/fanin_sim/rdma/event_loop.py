"""The event loop: runs a schedule from its first event to its last, and checks what must hold at its end."""

from numba import int64, uint64

from fanin_nic.native.memory import address_of, copy, fill_zero, load_u8, load_u64
from fanin_nic.transport.records.accessors import transport_at
from fanin_nic.transport.records.tables import Counter
from fanin_sim.jit import compiled, internal
from fanin_sim.kernel import event_queue
from fanin_sim.kernel.packets import clear
from fanin_sim.kernel.tables import NEVER, event_row, outcome_of
from fanin_sim.kernel.trace import add_line, report_violation
from fanin_sim.rdma.codes import EventKind, FaultKind, RequestFate, RequestKind, Violation
from fanin_sim.rdma.completions import check_shared_queues
from fanin_sim.rdma.devices import arrive, deadline_of, empty_tables, restart, serve, tick
from fanin_sim.rdma.network import note_fault
from fanin_sim.rdma.programs import abandon, begin, connect, give_up, reconnect, step
from fanin_sim.rdma.tables import (
    BUFFER,
    COUNTERS,
    GENERATIONS,
    MAX_MESSAGE,
    REQUESTS,
    WORLD,
    device_row,
    side_row,
    world_row,
)
from fanin_sim.rdma.workload import make_wrong, receive_of, request_of
from fanin_wire.rocev2 import Transport

ACTION_OVERFLOW = uint64(8 * Counter.ACTION_OVERFLOW)
OUTCOME_START, OUTCOME_SIZE = outcome_of(WORLD)
START = 1_000_000_000  # ns
MAX_EVENTS = 100_000


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


@internal
def prepare(w):
    """Reset everything to the state before the schedule, and connect all sides."""
    links = w.device_count * w.device_count
    clear(w, OUTCOME_START, OUTCOME_SIZE, (links, links * COUNTERS))
    w.now = START
    for index in range(w.device_count):
        device = device_row(w.devices, index)
        device.inbox_count = 0
        empty_tables(w, index)
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


@internal
def next_timer(w):
    """The device whose timer expires first; -1 if no timer runs."""
    first = -1
    for index in range(w.device_count):
        if deadline_of(w, index) < NEVER and (first < 0 or deadline_of(w, index) < deadline_of(w, first)):
            first = index
    return first


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
def check_end(w):
    """Check the state after the last event."""
    for side in range(w.side_count):
        if side_row(w.sides, side).generation < GENERATIONS:
            report_violation(w, Violation.HANGS, side, side_row(w.sides, side).ended)
    for index in range(w.device_count):
        t = transport_at(device_row(w.devices, index).base)
        if load_u64(address_of(t) + t.counter_offset + ACTION_OVERFLOW):
            report_violation(w, Violation.ACTION_OVERFLOW, index, 0)
    if w.is_shared and w.violation == Violation.NOTHING:
        for index in range(w.device_count):
            check_shared_queues(w, index)
    if w.checks_icrc and w.violation == Violation.NOTHING:
        excuse_failed(w)
        for index in range(w.device_count):
            compare_memory(w, index)


@internal
def excuse_failed(w):
    """Failed requests may have been carried out, or not, or in part."""
    for side in range(w.side_count):
        row = side_row(w.sides, side)
        for generation in range(GENERATIONS):
            for number in range(REQUESTS):
                excuse_request(w, row, side_row(w.sides, side ^ 1).device, request_of(w, side, generation, number))
                receive = receive_of(w, side, generation, number)
                is_untouched = w.is_shared and row.kind == Transport.RC and receive.fate == RequestFate.POSTED
                if receive.fate != RequestFate.SUCCEEDED and not is_untouched:
                    accept_memory(w, row.device, receive.place, BUFFER)


@internal
def excuse_request(w, row, other, request):
    """Excuse the effects of a request that has failed, or was never acknowledged."""
    if request.fate == RequestFate.SUCCEEDED and row.kind == Transport.RC:
        return
    if request.kind >= RequestKind.READ:
        accept_memory(w, row.device, request.local, MAX_MESSAGE)
    if request.kind >= RequestKind.FETCH_ADD:
        accept_memory(w, other, int64(request.remote) & ~7, 8)
    elif request.kind >= RequestKind.WRITE and request.kind < RequestKind.READ:
        accept_memory(w, other, request.remote, MAX_MESSAGE)


@internal
def accept_memory(w, index, place, length):
    """The model takes bytes of a device that may be anything."""
    device = device_row(w.devices, index)
    copy(device.model + uint64(place), device.memory + uint64(place), uint64(length))


@internal
def compare_memory(w, index):
    """Compare the memory of a device with the model."""
    device = device_row(w.devices, index)
    for place in range(0, device.memory_size, 8):
        if load_u64(device.memory + uint64(place)) != load_u64(device.model + uint64(place)):
            report_violation(w, Violation.WRONG_MEMORY, index, place)
            return
    for place in range(device.memory_size & ~7, device.memory_size):
        if load_u8(device.memory + uint64(place)) != load_u8(device.model + uint64(place)):
            report_violation(w, Violation.WRONG_MEMORY, index, place)

"""The events of devices: packets in batches, turns of queue pairs, timers, actions, and a start anew."""

from numba import int64, uint64

from fanin_nic.engine.records.actions import RECEIVED_SIZE, received_at
from fanin_nic.native.memory import copy, load_u32, load_u64, store_be64, store_u32, store_u64
from fanin_nic.transport.records.accessors import action_at, queue_pair_at, transport_at
from fanin_nic.transport.records.actions import ActionKind
from fanin_sim.jit import internal
from fanin_sim.kernel import event_queue
from fanin_sim.kernel.calls import call_event
from fanin_sim.kernel.event_queue import PAUSE, draw_below
from fanin_sim.kernel.packets import data_of, release
from fanin_sim.kernel.tables import NEVER, packet_row
from fanin_sim.kernel.trace import add_line, report_violation
from fanin_sim.rdma.codes import EventKind, FaultKind, RequestFate, Violation
from fanin_sim.rdma.completions import break_connection, complete, forget_shared
from fanin_sim.rdma.network import note_fault, send
from fanin_sim.rdma.tables import GENERATIONS, REQUESTS, device_row, side_row
from fanin_sim.rdma.workload import receive_of, request_of

MAX_TURNS = 4  # of queue pairs, between two performances of actions


@internal
def arrive(w, index, number):
    """A packet arrives at a device. If too many wait, it is lost."""
    device = device_row(w.devices, index)
    w.deliveries += 1
    if device.inbox_count == device.inbox_room:
        release(w, number)
        return
    store_u32(device.inbox + uint64(4 * device.inbox_count), number)
    device.inbox_count += 1
    serve_soon(w, index)


@internal
def serve_soon(w, index):
    """Let a device work off its packets, after a pause in which more may arrive."""
    device = device_row(w.devices, index)
    if not device.serves:
        device.serves = 1
        device.turns += 1
        pause = draw_below(w.seed, PAUSE, index, device.turns, w.pause + 1)
        event_queue.put(w, w.now + pause, EventKind.SERVE, index, 0, device.boots)


@internal
def serve(w, index):
    """A device works off its packets, then gives turns to its queue pairs until all are idle."""
    device = device_row(w.devices, index)
    device.serves = 0
    take_batch(w, index, device)
    while call_event(w.on_serve, (int64(device.base), MAX_TURNS, w.now)):
        perform(w, index)
        w.events += 1
    perform(w, index)


@internal
def take_batch(w, index, device):
    """Give the transport the waiting packets as one batch."""
    count = device.inbox_count
    for place in range(count):
        number = int64(load_u32(device.inbox + uint64(4 * place)))
        packet = packet_row(w.packets, number)
        entry = received_at(w.received + uint64(place) * RECEIVED_SIZE)
        entry.source = device_row(w.devices, packet.source).address
        entry.length = packet.length
        entry.address = data_of(w, number)
    taken = 0
    while taken < count:
        taken = call_event(w.on_packets, (int64(device.base), int64(w.received), taken, count, w.now))
        perform(w, index)
    device.inbox_count = 0
    for place in range(count):
        release(w, int64(load_u32(device.inbox + uint64(4 * place))))


@internal
def tick(w, index):
    call_event(w.on_tick, (int64(device_row(w.devices, index).base), w.now))
    perform(w, index)
    serve_soon(w, index)


@internal
def deadline_of(w, index):
    """When the timer of a device expires, ns."""
    deadline = transport_at(device_row(w.devices, index).base).next_deadline
    return NEVER if deadline > uint64(NEVER) else int64(deadline)


@internal
def perform(w, index):
    """Perform the actions of a device."""
    t = transport_at(device_row(w.devices, index).base)
    count = int64(t.action_count)
    for number in range(count):
        change_memory(w, index, action_at(t, uint64(number)))
    for number in range(count):
        if action_at(t, uint64(number)).kind == ActionKind.SEND:
            send(w, index, number)
    for number in range(count):
        if action_at(t, uint64(number)).kind == ActionKind.COMPLETE:
            complete(w, index, action_at(t, uint64(number)))
    t.action_count = 0


@internal
def change_memory(w, index, action):
    """Perform an action that changes memory."""
    is_atomic = action.kind == ActionKind.COMPARE_SWAP or action.kind == ActionKind.FETCH_ADD
    if action.kind != ActionKind.WRITE and not is_atomic:
        return
    device = device_row(w.devices, index)
    length = 8 if is_atomic else int64(action.length)
    start, end = device.memory, device.memory + uint64(device.memory_size)
    if action.remote < start or action.remote > end or uint64(length) > end - action.remote:
        report_violation(w, Violation.STRAY_WRITE, index, length)
    elif action.kind == ActionKind.WRITE:
        copy(action.remote, action.payload, uint64(length))
    else:
        original = load_u64(action.remote)
        store_be64(action.payload, original)
        if action.kind == ActionKind.FETCH_ADD:
            store_u64(action.remote, original + action.operand)
        elif original == action.compare:
            store_u64(action.remote, action.operand)


@internal
def restart(w, index):
    note_fault(w, FaultKind.RESTART, index)
    add_line(w, EventKind.RESTARTED, index, 0, 0, 0, 0, 0, 0)
    empty_tables(w, index)
    if w.is_shared:
        forget_shared(w, index)
    for side in range(w.side_count):
        row = side_row(w.sides, side)
        if row.device == index and row.generation < GENERATIONS:
            forget(w, side, row)
            break_connection(w, side)


@internal
def empty_tables(w, index):
    """Empty the tables of a device, and drop the waiting packets."""
    device = device_row(w.devices, index)
    copy(device.base, device.snapshot, uint64(device.size))
    t = transport_at(device.base)
    for row in range(int64(t.queue_pairs)):
        queue_pair_at(t, uint64(row)).qpn = 0
    for place in range(device.inbox_count):
        release(w, int64(load_u32(device.inbox + uint64(4 * place))))
    device.inbox_count = 0
    device.serves = 0
    device.boots += 1


@internal
def forget(w, side, row):
    """The program of a side gets no more completions."""
    row.is_forgotten = 1
    for number in range(REQUESTS):
        request = request_of(w, side, row.generation, number)
        if request.fate == RequestFate.POSTED:
            request.fate = RequestFate.FORGOTTEN
        receive = receive_of(w, side, row.generation, number)
        if receive.fate == RequestFate.POSTED:
            receive.fate = RequestFate.FORGOTTEN

"""The events of devices: packets that arrive in batches, turns of queue pairs, timers."""

from numba import int64, uint64

from fanin_nic.engine.records.actions import RECEIVED_SIZE, received_at
from fanin_nic.native.memory import load_u32, store_u32
from fanin_nic.transport.records.accessors import transport_at
from fanin_sim.jit import internal
from fanin_sim.kernel import event_queue
from fanin_sim.kernel.calls import call_event
from fanin_sim.kernel.counter_rng import PAUSE, draw_below
from fanin_sim.kernel.packets import data_of, release
from fanin_sim.kernel.tables import NEVER, packet_row
from fanin_sim.rdma.actions import perform
from fanin_sim.rdma.codes import EventKind
from fanin_sim.rdma.tables import device_row

MAX_TURNS = 4  # of queue pairs, between two performances of actions


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
def deadline_of(w, index):
    """When the timer of a device expires, ns."""
    deadline = transport_at(device_row(w.devices, index).base).next_deadline
    return NEVER if deadline > uint64(NEVER) else int64(deadline)


@internal
def tick(w, index):
    call_event(w.on_tick, (int64(device_row(w.devices, index).base), w.now))
    perform(w, index)
    serve_soon(w, index)

"""The end of a schedule: all connections have ended, and every byte of memory is what the requests have made of it."""

from numba import int64, uint64

from fanin_nic.native.memory import address_of, copy, load_u8, load_u64
from fanin_nic.transport.records.accessors import transport_at
from fanin_nic.transport.records.tables import Counter
from fanin_sim.jit import internal
from fanin_sim.kernel.trace import report_violation
from fanin_sim.rdma.codes import RequestFate, RequestKind, Violation
from fanin_sim.rdma.shared_queues import check_shared_queues
from fanin_sim.rdma.tables import BUFFER, GENERATIONS, LONGEST, REQUESTS, device_row, side_row
from fanin_sim.rdma.workload import receive_of, request_of
from fanin_wire.rocev2 import Transport

ACTION_OVERFLOW = uint64(8 * Counter.ACTION_OVERFLOW)


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
            compare(w, index)


@internal
def accept(w, index, place, length):
    """The model takes bytes of a device that may be anything."""
    device = device_row(w.devices, index)
    copy(device.model + uint64(place), device.memory + uint64(place), uint64(length))


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
                    accept(w, row.device, receive.place, BUFFER)


@internal
def excuse_request(w, row, other, request):
    """Excuse the effects of a request that has failed, or was never acknowledged."""
    if request.fate == RequestFate.SUCCEEDED and row.kind == Transport.RC:
        return
    if request.kind >= RequestKind.READ:
        accept(w, row.device, request.local, LONGEST)
    if request.kind >= RequestKind.FETCH_ADD:
        accept(w, other, int64(request.remote) & ~7, 8)
    elif request.kind >= RequestKind.WRITE and request.kind < RequestKind.READ:
        accept(w, other, request.remote, LONGEST)


@internal
def compare(w, index):
    """Compare the memory of a device with the model."""
    device = device_row(w.devices, index)
    for place in range(0, device.memory_size, 8):
        if load_u64(device.memory + uint64(place)) != load_u64(device.model + uint64(place)):
            report_violation(w, Violation.WRONG_MEMORY, index, place)
            return
    for place in range(device.memory_size & ~7, device.memory_size):
        if load_u8(device.memory + uint64(place)) != load_u8(device.model + uint64(place)):
            report_violation(w, Violation.WRONG_MEMORY, index, place)

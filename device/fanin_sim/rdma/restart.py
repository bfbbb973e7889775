"""A restart of a device: its tables are empty, and its programs forget requests under way."""

from numba import int64, uint64

from fanin_nic.native.memory import copy, load_u32
from fanin_nic.transport.records.accessors import queue_pair_at, transport_at
from fanin_sim.jit import internal
from fanin_sim.kernel.packets import release
from fanin_sim.kernel.trace import add_line
from fanin_sim.rdma.codes import EventKind, FaultKind, RequestFate
from fanin_sim.rdma.completions import break_connection
from fanin_sim.rdma.faults import note_fault
from fanin_sim.rdma.shared_queues import forget_shared
from fanin_sim.rdma.tables import GENERATIONS, REQUESTS, device_row, side_row
from fanin_sim.rdma.workload import receive_of, request_of


@internal
def restart(w, index):
    note_fault(w, FaultKind.RESTART, index)
    add_line(w, EventKind.RESTARTED, index, 0, 0, 0, 0, 0, 0)
    empty(w, index)
    if w.is_shared:
        forget_shared(w, index)
    for side in range(w.side_count):
        row = side_row(w.sides, side)
        if row.device == index and row.generation < GENERATIONS:
            forget(w, side, row)
            break_connection(w, side)


@internal
def empty(w, index):
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

"""The checks of shared receive queues: their order, and that no request is lost.

A device has one for its reliable connections and one for all else: a datagram that the network repeats then takes no
request from a waiting connection. A program also posts its requests after its connection has failed: other queue pairs
may have received from the first ones.
"""

from numba import int64, uint64

from fanin_nic.transport.queue_pairs import waiting
from fanin_nic.transport.records.accessors import (
    queue_pair_at,
    shared_index,
    shared_queue_at,
    shared_row,
    transport_at,
)
from fanin_sim.jit import internal
from fanin_sim.kernel.trace import report_violation
from fanin_sim.rdma.codes import RequestFate, Violation
from fanin_sim.rdma.tables import device_row, receive_row, side_row
from fanin_sim.rdma.workload import ROWS, receive_of

RELIABLE, UNRELIABLE = 0, 1  # rows of the shared queues
NUMBER = 0xFFFFFFFF  # of a request, in a wr_id


@internal
def receiver_of(w, device, qpn):
    """The side of a device whose queue pair has a number; -1 if none has."""
    t = transport_at(device_row(w.devices, device).base)
    for side in range(w.side_count):
        row = side_row(w.sides, side)
        if row.device == device and not row.is_forgotten and queue_pair_at(t, uint64(row.row)).qpn == qpn:
            return side
    return -1


@internal
def waiting_request(w, t, shared, number):
    """The request `number` that waits in a shared queue, as the programs know it."""
    waits = shared_row(t, shared_index(t, shared, int64(shared.head) + number))
    return receive_row(w.receives, int64(waits.wr_id) & NUMBER)


@internal
def is_overtaken(w, device, queue, ticket):
    """Whether a request of a queue of reliable connections, which keep what they take, has overtaken an older one."""
    t = transport_at(device_row(w.devices, device).base)
    shared = shared_queue_at(t, uint64(queue))
    if queue != RELIABLE or waiting(shared) == 0:
        return False
    return waiting_request(w, t, shared, 0).ticket < ticket


@internal
def check_shared_queues(w, device):
    """At the end a shared queue of a device holds the requests that were posted and have not ended, each once."""
    t = transport_at(device_row(w.devices, device).base)
    for queue in (RELIABLE, UNRELIABLE):
        shared, open_requests = shared_queue_at(t, uint64(queue)), 0
        for side in range(w.side_count):
            row = side_row(w.sides, side)
            if row.device == device and row.shared_queue == queue:
                for number in range(ROWS):
                    open_requests += receive_of(w, side, 0, number).fate == RequestFate.POSTED
        if waiting(shared) != open_requests or shared.taken:
            report_violation(w, Violation.MISSING_COMPLETION, device, waiting(shared) - open_requests)
            return
        for number in range(open_requests):
            request = waiting_request(w, t, shared, number)
            if request.fate != RequestFate.POSTED:
                report_violation(w, Violation.WRONG_COMPLETION, device, number)
            is_out_of_order = number and waiting_request(w, t, shared, number - 1).ticket > request.ticket
            if queue == RELIABLE and is_out_of_order:
                report_violation(w, Violation.WRONG_COMPLETION, device, number)


@internal
def forget_shared(w, device):
    """A restarted device has empty shared queues."""
    for side in range(w.side_count):
        if side_row(w.sides, side).device == device:
            for number in range(ROWS):
                receive = receive_of(w, side, 0, number)
                if receive.fate == RequestFate.POSTED:
                    receive.fate = RequestFate.FORGOTTEN

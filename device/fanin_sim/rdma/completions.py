"""The checks of completions, and of shared receive queues: their order, and that no request is lost.

A device has one shared queue for its reliable connections and one for all else: a datagram that the network repeats
then takes no request from a waiting connection. A program also posts its requests after its connection has failed:
other queue pairs may have received from the first ones.
"""

from numba import int64, uint64

from fanin_nic.native.memory import copy, load_u64, store_u64
from fanin_nic.transport.queue_pairs import waiting_requests
from fanin_nic.transport.records.accessors import queue_pair_at, shared_index, shared_queue_at, shared_row, transport_at
from fanin_sim.jit import internal
from fanin_sim.kernel import event_queue
from fanin_sim.kernel.event_queue import draw_below
from fanin_sim.kernel.trace import add_line, report_violation
from fanin_sim.rdma.codes import EventKind, RequestFate, RequestKind, Violation
from fanin_sim.rdma.pattern import fill, is_pattern
from fanin_sim.rdma.tables import REQUESTS, device_row, receive_row, side_row
from fanin_sim.rdma.workload import ROWS, receive_of, request_of
from fanin_wire.rocev2 import GRH_SIZE, Transport
from fanin_wire.verbs import CompletionFlag, CompletionOpcode, CompletionStatus, SendFlag

RELIABLE, UNRELIABLE = 0, 1  # rows of the shared queues
NUMBER = 0xFFFFFFFF  # of a request, in a wr_id
IS_RECEIVE = 1 << 32  # in a wr_id
GIVE_UP = 50  # purpose of random numbers
MAX_NOTICE_DELAY = 2_000_000  # ns until the programs of a broken connection know


@internal
def complete(w, device, action):
    wr_id, status = int64(action.wr_id), int64(action.status)
    side, number = (wr_id & NUMBER) // ROWS, (wr_id & NUMBER) % ROWS
    w.completions += 1
    add_line(w, EventKind.COMPLETION, side, wr_id >> 32, int64(action.opcode), number, 0, status, 0)
    if side >= w.side_count or side_row(w.sides, side).device != device:
        report_violation(w, Violation.WRONG_COMPLETION, device, wr_id)
        return
    if w.is_shared and wr_id >= IS_RECEIVE:
        complete_shared(w, device, side, number, action, status)
        return
    row = side_row(w.sides, side)
    t = transport_at(device_row(w.devices, device).base)
    same = number // REQUESTS == row.generation and action.qpn == queue_pair_at(t, uint64(row.row)).qpn
    if not same or row.is_forgotten:
        report_violation(w, Violation.WRONG_COMPLETION, side, wr_id)
    elif wr_id >= IS_RECEIVE:
        complete_receive(w, side, row, number % REQUESTS, action, status)
    else:
        complete_send(w, side, row, number % REQUESTS, action, status)


# Requests to send


@internal
def complete_send(w, side, row, number, action, status):
    """The completion of a request to send. Unsignaled requests before it have succeeded."""
    if number < row.ended or number >= row.posted:
        report_violation(w, Violation.WRONG_COMPLETION, side, number)
        return
    for earlier in range(row.ended, number):
        if request_of(w, side, row.generation, earlier).flags & SendFlag.SIGNALED:
            report_violation(w, Violation.WRONG_COMPLETION, side, earlier)
            return
        succeed(w, side, row, earlier)
    request = request_of(w, side, row.generation, number)
    row.ended = number + 1
    if status == CompletionStatus.SUCCESS:
        if not request.flags & SendFlag.SIGNALED:
            report_violation(w, Violation.WRONG_COMPLETION, side, number)
        if action.opcode != opcode_of(request.kind) or int64(action.byte_length) != request.length:
            report_violation(w, Violation.WRONG_COMPLETION, side, number)
        row.ended = number
        succeed(w, side, row, number)
    else:
        request.fate = RequestFate.FAILED
        w.failed += 1
        check_failure(w, side, row, request, status)
        break_connection(w, side)
    finish_if_over(w, side)


@internal
def end_unsignaled(w, side):
    """The queue pair of a side has ended. Its last requests may lack a completion as they were not signaled, and have
    succeeded. Returns the number of one that lacks its completion; -1 if none does."""
    row = side_row(w.sides, side)
    for number in range(row.ended, row.posted):
        if request_of(w, side, row.generation, number).flags & SendFlag.SIGNALED:
            return number
        succeed(w, side, row, number)
    return -1


@internal
def opcode_of(kind):
    """Opcode of the completion of a kind of request."""
    if kind < RequestKind.WRITE:
        return 0
    if kind < RequestKind.READ:
        return CompletionOpcode.RDMA_WRITE
    if kind < RequestKind.FETCH_ADD:
        return CompletionOpcode.RDMA_READ
    return CompletionOpcode.FETCH_ADD if kind == RequestKind.FETCH_ADD else CompletionOpcode.COMP_SWAP


@internal
def check_failure(w, side, row, request, status):
    """Check the status of a failed request."""
    if not w.checks_icrc:
        return
    if request.wrong and status == request.wanted:
        return
    explained = status in (CompletionStatus.WR_FLUSH_ERR, CompletionStatus.RETRY_EXC_ERR)
    if row.may_fail and explained and not (request.wrong and is_calm(w) and not row.is_broken):
        return
    if status == CompletionStatus.RNR_RETRY_EXC_ERR and w.rnr_retry < 7:
        return
    report_violation(w, Violation.WRONG_STATUS, side, status)


@internal
def is_calm(w):
    """Whether no packet is lost, so that every error must be reported exactly."""
    return w.rate[1] == 0 and w.rate[2] == 0 and w.rate[5] == 0 and w.restart_device < 0 and w.abandon_connection < 0


@internal
def succeed(w, side, row, number):
    """A request has succeeded: check its effects here, and apply it to the model."""
    request = request_of(w, side, row.generation, number)
    row.ended = number + 1
    request.fate = RequestFate.SUCCEEDED
    w.succeeded += 1
    if not w.checks_icrc:
        return
    if request.wrong:
        report_violation(w, Violation.WRONG_STATUS, side, CompletionStatus.SUCCESS)
    here, other = device_row(w.devices, row.device), side_row(w.sides, side ^ 1)
    there = device_row(w.devices, other.device)
    place = here.memory + uint64(request.local)
    if request.kind >= RequestKind.FETCH_ADD:
        if load_u64(place) != request.original:
            report_violation(w, Violation.WRONG_DATA, side, number)
        store_u64(here.model + uint64(request.local), request.original)
        store_u64(there.model + uint64(request.remote), request.result)
    elif request.kind >= RequestKind.READ:
        if not is_pattern(place, request.pattern, request.length):
            report_violation(w, Violation.WRONG_DATA, side, number)
        fill(here.model + uint64(request.local), request.pattern, request.length)
    elif request.kind >= RequestKind.WRITE and row.kind == Transport.RC:
        fill(there.model + uint64(request.remote), request.pattern, request.length)
    if row.kind == Transport.RC and request.message >= other.messages and not other.is_forgotten:
        report_violation(w, Violation.LOST_MESSAGE, side, number)


# Receive requests


@internal
def complete_receive(w, side, row, number, action, status):
    """The completion of the oldest open receive request."""
    if number != row.receives_ended or number >= row.receives_posted:
        report_violation(w, Violation.WRONG_COMPLETION, side, IS_RECEIVE + number)
        return
    receive = receive_of(w, side, row.generation, number)
    row.receives_ended += 1
    end_receive(w, side, row, receive, action, status)


@internal
def end_receive(w, side, row, receive, action, status):
    """A queue pair of a side has ended a receive request."""
    receive.fate = RequestFate.SUCCEEDED if status == CompletionStatus.SUCCESS else RequestFate.FAILED
    if not w.checks_icrc:
        row.messages += 1
        if status != CompletionStatus.SUCCESS:
            break_connection(w, side)
    elif status == CompletionStatus.SUCCESS:
        receive_message(w, side, row, receive, action)
    else:
        if not row.may_fail or (status != CompletionStatus.WR_FLUSH_ERR and status != CompletionStatus.LOC_LEN_ERR):
            report_violation(w, Violation.WRONG_STATUS, side, status)
        break_connection(w, side)


@internal
def receive_message(w, side, row, receive, action):
    """A message has arrived: identify and check it."""
    found = next_message(w, side, row, action)
    if found < 0:
        report_violation(w, Violation.WRONG_COMPLETION, side, int64(action.immediate))
        return
    request = request_of(w, side ^ 1, row.generation, found)
    row.messages = request.message + 1
    w.received_messages += 1
    head = GRH_SIZE if row.kind == Transport.UD else 0
    has_data = request.kind != RequestKind.WRITE_WITH_IMMEDIATE
    device = device_row(w.devices, row.device)
    place = device.memory + uint64(receive.place + head)
    if row.kind != Transport.RC:  # the header of the network; behind the message may be parts of dropped ones
        copy(device.model + uint64(receive.place), device.memory + uint64(receive.place), uint64(receive.length))
    if not is_described(w, side ^ 1, row, request, found, action, head):
        report_violation(w, Violation.WRONG_COMPLETION, side, found)
    elif has_data and not is_pattern(place, request.pattern, request.length):
        report_violation(w, Violation.WRONG_DATA, side, found)
    elif request.wrong:
        report_violation(w, Violation.WRONG_STATUS, side, found)
    elif has_data:
        fill(device.model + uint64(receive.place + head), request.pattern, request.length)


@internal
def next_message(w, side, row, action):
    """The number of the request that sent a message; -1 if none fits. RC: the next one. UC and UD: any, by its
    immediate data, since a network that repeats packets repeats messages of these services."""
    if row.kind != Transport.RC:
        found = int64(action.immediate) - ((side ^ 1) * ROWS + row.generation * REQUESTS)
        return found if 0 <= found < side_row(w.sides, side ^ 1).posted else -1
    for number in range(side_row(w.sides, side ^ 1).posted):
        if request_of(w, side ^ 1, row.generation, number).message == row.messages:
            return number
    return -1


@internal
def is_described(w, sender, row, request, number, action, head):
    """Whether a completion describes a message truly."""
    is_write = request.kind == RequestKind.WRITE_WITH_IMMEDIATE
    if action.opcode != (CompletionOpcode.RECV_RDMA_WITH_IMM if is_write else CompletionOpcode.RECV):
        return False
    flags = 0 if request.kind == RequestKind.SEND else CompletionFlag.WITH_IMM
    flags |= CompletionFlag.GRH if row.kind == Transport.UD else 0
    if action.flags != flags or int64(action.byte_length) != request.length + head:
        return False
    immediate = sender * ROWS + row.generation * REQUESTS + number
    if flags & CompletionFlag.WITH_IMM and int64(action.immediate) != immediate:
        return False
    return (action.solicited != 0) == (request.flags & SendFlag.SOLICITED != 0)


# Shared receive queues


@internal
def complete_shared(w, device, owner, number, action, status):
    """The completion of a request that a side has posted to a shared queue, by any queue pair that receives from it."""
    receive = receive_of(w, owner, number // REQUESTS, number % REQUESTS)
    side, queue = receiver_of(w, device, action.qpn), side_row(w.sides, owner).shared_queue
    if side < 0 or receive.fate != RequestFate.POSTED or side_row(w.sides, side).shared_queue != queue:
        report_violation(w, Violation.WRONG_COMPLETION, owner, IS_RECEIVE + number)
        return
    row = side_row(w.sides, side)
    row.cut_off += status != CompletionStatus.SUCCESS
    if row.cut_off > 1 or is_overtaken(w, device, queue, receive.ticket):
        report_violation(w, Violation.WRONG_COMPLETION, side, IS_RECEIVE + number)
    end_receive(w, side, row, receive, action, status)


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
def is_overtaken(w, device, queue, ticket):
    """Whether a request of a queue of reliable connections, which keep what they take, has overtaken an older one."""
    t = transport_at(device_row(w.devices, device).base)
    shared = shared_queue_at(t, uint64(queue))
    if queue != RELIABLE or waiting_requests(shared) == 0:
        return False
    return waiting_request(w, t, shared, 0).ticket < ticket


@internal
def waiting_request(w, t, shared, number):
    """The request `number` that waits in a shared queue, as the programs know it."""
    waits = shared_row(t, shared_index(t, shared, int64(shared.head) + number))
    return receive_row(w.receives, int64(waits.wr_id) & NUMBER)


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
        if waiting_requests(shared) != open_requests or shared.taken:
            report_violation(w, Violation.MISSING_COMPLETION, device, waiting_requests(shared) - open_requests)
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


# Connections


@internal
def break_connection(w, side):
    """A connection has failed or was ended: its programs post nothing more, and end their queue pairs soon."""
    first = side & ~1
    if side_row(w.sides, first).is_broken:
        return
    for number in range(first, first + 2):
        side_row(w.sides, number).is_broken = 1
        side_row(w.sides, number).may_fail = 1
    row = side_row(w.sides, first)
    late = draw_below(w.seed, GIVE_UP, first, row.generation, MAX_NOTICE_DELAY)
    event_queue.put(w, w.now + late, EventKind.GIVEN_UP, first >> 1, 0, row.generation)


@internal
def finish_if_over(w, side):
    """End a connection all of whose requests have ended."""
    first = side & ~1
    for number in range(first, first + 2):
        row = side_row(w.sides, number)
        if row.ended < REQUESTS:
            return
    break_connection(w, side)

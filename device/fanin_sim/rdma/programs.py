"""The programs of the sides: they post requests and receive requests, end connections, and make them anew."""

from numba import int64, uint64

from fanin_nic.native.memory import address_of, copy, fill_zero, store_u32, store_u64
from fanin_nic.transport.records.accessors import queue_pair_at, transport_at
from fanin_nic.transport.records.tables import ORIGINAL, QUEUE_PAIR
from fanin_sim.jit import internal
from fanin_sim.kernel import event_queue
from fanin_sim.kernel.calls import call_event
from fanin_sim.kernel.event_queue import GAP, draw, draw_below
from fanin_sim.kernel.trace import add_line, report_violation
from fanin_sim.rdma.codes import EventKind, FaultKind, RequestFate, RequestKind, Violation, WrongRequest
from fanin_sim.rdma.completions import IS_RECEIVE, break_connection, end_unsignaled
from fanin_sim.rdma.devices import serve_soon
from fanin_sim.rdma.network import fault_value
from fanin_sim.rdma.pattern import fill
from fanin_sim.rdma.tables import GENERATIONS, REQUESTS, device_row, receive_wqe_row, send_wqe_row, side_row
from fanin_sim.rdma.workload import ROWS, plan_side, receive_of, request_of
from fanin_wire.abi import RECEIVE_WQE, SEND_WQE, SGE
from fanin_wire.rocev2 import PSN_BITS, Transport
from fanin_wire.verbs import MAX_RD_ATOMIC, SendFlag

STEP, PIECES, RECONNECT, PSN = 51, 52, 53, 54  # purposes of random numbers
MAX_LATENESS = 30_000_000  # ns
MAX_RECONNECT = 100_000  # ns; packets of the last connection are under way
SETTLE = 60_000_000  # ns: late packets of unreliable services have arrived then
QKEY = 0x11111111
SEND_SGE = uint64(SEND_WQE.fields["sge"][1])  # type: ignore[index]
RECEIVE_SGE = uint64(RECEIVE_WQE.fields["sge"][1])  # type: ignore[index]
SEND_WQE_SIZE, RECEIVE_WQE_SIZE = uint64(SEND_WQE.itemsize), uint64(RECEIVE_WQE.itemsize)
SGE_SIZE = uint64(SGE.itemsize)
QUEUE_PAIR_SIZE = uint64(QUEUE_PAIR.itemsize)
ORIGINALS_SIZE = uint64(ORIGINAL.itemsize * MAX_RD_ATOMIC)
PSN_MASK = (1 << PSN_BITS) - 1


@internal
def base_of(w, row):
    """Address of the arena of a side's device."""
    return device_row(w.devices, row.device).base


@internal
def qpn_of(w, side):
    row = side_row(w.sides, side)
    return int64(queue_pair_at(transport_at(base_of(w, row)), uint64(row.row)).qpn)


@internal
def step(w, side, generation):
    """The program of a side takes its next step: it posts a request, or a receive request."""
    row = side_row(w.sides, side)
    if row.generation != generation or row.is_broken:
        return
    row.steps += 1
    drawn = draw(w.seed, STEP, side, row.steps)
    may_receive, may_send = row.receives_posted < REQUESTS, row.posted < REQUESTS
    if may_receive and (drawn & 1 or not may_send):
        post_receive(w, side, row)
    elif may_send:
        post_send(w, side, row)
    serve_soon(w, row.device)
    if row.posted < REQUESTS or row.receives_posted < REQUESTS:
        late = fault_value(w, FaultKind.LATE_PROGRAM, side, row.steps)
        late = late % MAX_LATENESS if late >= 0 else 0
        gap = draw_below(w.seed, GAP, side, row.steps, w.gap + 1)
        event_queue.put(w, w.now + gap + late, EventKind.PROGRAM, side, 0, generation)


@internal
def put_piece(place, address, length, key):
    store_u64(place, address)
    store_u32(place + uint64(8), length)
    store_u32(place + uint64(12), key)


@internal
def post_receive(w, side, row):
    """Post the next receive request, in one piece or two."""
    number, device = row.receives_posted, device_row(w.devices, row.device)
    receive = receive_of(w, side, row.generation, number)
    fill_zero(w.receive_wqe, RECEIVE_WQE_SIZE)
    wqe = receive_wqe_row(w.receive_wqe, 0)
    wqe.wr_id = uint64(IS_RECEIVE + side * ROWS + row.generation * REQUESTS + number)
    split = draw_below(w.seed, PIECES, side, 1000 + number, 2 * (receive.length + 1))
    address = device.memory + uint64(receive.place)
    wqe.sge_count = put_pieces(w.receive_wqe + RECEIVE_SGE, address, receive.length, split, device.key)
    receive.fate = RequestFate.POSTED
    row.receives_posted += 1
    device.tickets += 1
    receive.ticket = device.tickets
    add_line(w, EventKind.POST, side, 1, 0, number, 0, receive.length, 0)
    event, queue = (w.on_post_shared, row.shared_queue) if w.is_shared else (w.on_post_receive, row.row)
    if not call_event(event, (base_of(w, row), queue, int64(w.receive_wqe), w.now)):
        report_violation(w, Violation.WRONG_COMPLETION, side, number)


@internal
def put_pieces(place, address, length, split, key):
    """Store memory as two pieces, if `split` lies within it, else as one. Returns how many."""
    if split <= 0 or split >= length:
        put_piece(place, address, length, key)
        return 1
    put_piece(place, address, split, key)
    put_piece(place + SGE_SIZE, address + uint64(split), length - split, key)
    return 2


@internal
def post_send(w, side, row):
    number, here = row.posted, device_row(w.devices, row.device)
    other = side_row(w.sides, side ^ 1)
    there = device_row(w.devices, other.device)
    request = request_of(w, side, row.generation, number)
    fill_zero(w.send_wqe, SEND_WQE_SIZE)
    wqe = send_wqe_row(w.send_wqe, 0)
    wqe.wr_id = uint64(side * ROWS + row.generation * REQUESTS + number)
    wqe.opcode = request.opcode
    wqe.flags = request.flags
    wqe.immediate = side * ROWS + row.generation * REQUESTS + number
    wqe.remote_address = there.memory + uint64(request.remote)
    wqe.rkey = there.key ^ (1 if request.wrong == WrongRequest.REMOTE_KEY else 0)
    if request.wrong == WrongRequest.BEYOND_REGION:
        wqe.remote_address = there.memory + uint64(there.memory_size - request.length + 1)
    wqe.compare_add = request.operand if request.kind == RequestKind.FETCH_ADD else request.compare
    wqe.swap = request.operand
    if row.kind == Transport.UD:
        wqe.destination = there.address
        wqe.remote_qpn = qpn_of(w, side ^ 1)
        wqe.remote_qkey = QKEY
    attach_data(w, side, row, request, wqe, here)
    request.fate = RequestFate.POSTED
    row.posted += 1
    if request.wrong:
        row.may_fail = 1
        other.may_fail = 1
    add_line(w, EventKind.POST, side, 0, request.kind, number, request.wrong, request.length, request.flags)
    if not call_event(w.on_post_send, (here.base, row.row, int64(w.send_wqe), w.now)):
        report_violation(w, Violation.WRONG_COMPLETION, side, number)


@internal
def attach_data(w, side, row, request, wqe, here):
    """Give a work request its memory, and the memory its bytes."""
    address = here.memory + uint64(request.local)
    if request.flags & SendFlag.INLINE:
        wqe.inline_length = request.length
        fill(w.send_wqe + SEND_SGE, request.pattern, request.length)
        return
    if request.kind < RequestKind.READ:
        fill(address, request.pattern, request.length)
        fill(here.model + uint64(request.local), request.pattern, request.length)
    key = here.key ^ (1 if request.wrong == WrongRequest.LOCAL_KEY else 0)
    split = draw_below(w.seed, PIECES, side, row.generation * REQUESTS + row.posted, 2 * (request.length + 1))
    wqe.sge_count = put_pieces(w.send_wqe + SEND_SGE, address, request.length, split, key)


# Connections


@internal
def give_up(w, connection, generation):
    """The programs of a connection end their queue pairs: open requests are flushed."""
    first = 2 * connection
    if side_row(w.sides, first).generation != generation:
        return
    for side in range(first, first + 2):
        row = side_row(w.sides, side)
        while w.is_shared and row.receives_posted < REQUESTS:  # other queue pairs have received from the first ones
            post_receive(w, side, row)
        if not row.is_forgotten:
            call_event(w.on_fail, (base_of(w, row), row.row, w.now))
            serve_soon(w, row.device)
    late = draw_below(w.seed, RECONNECT, connection, generation, MAX_RECONNECT)
    event_queue.put(w, w.now + w.pause + 1 + late, EventKind.CONNECTED, connection, 0, generation)


@internal
def reconnect(w, connection, generation):
    """Make a connection anew, if it is to live once more; all its requests must have ended."""
    first = 2 * connection
    if side_row(w.sides, first).generation != generation:
        return
    for side in range(first, first + 2):
        row = side_row(w.sides, side)
        if not row.is_forgotten:
            lacking = end_unsignaled(w, side)
            if lacking >= 0 or (row.receives_ended < row.receives_posted and not w.is_shared):
                report_violation(w, Violation.MISSING_COMPLETION, side, lacking)
    for side in range(first, first + 2):
        side_row(w.sides, side).generation += 1
    if generation + 1 < GENERATIONS:
        connect(w, connection)


@internal
def connect(w, connection):
    """Connect the queue pairs of two sides, with new numbers, and let their programs begin."""
    first = 2 * connection
    for side in range(first, first + 2):
        row = side_row(w.sides, side)
        row.numbers += 1
        row.is_broken = 0
        row.may_fail = 0
        row.posted = 0
        row.ended = 0
        row.receives_posted = 0
        row.receives_ended = 0
        row.cut_off = 0
        row.messages = 0
        row.is_forgotten = 0
        make_queue_pair(w, side, row)
    for side in range(first, first + 2):
        row = side_row(w.sides, side)
        q = queue_pair_at(transport_at(base_of(w, row)), uint64(row.row))
        q.remote_qpn = qpn_of(w, side ^ 1)
        call_event(w.on_wake, (base_of(w, row), row.row, w.now))
        event_queue.put(w, w.now + 1, EventKind.PROGRAM, side, 0, row.generation)
    w.connections_made += 1
    add_line(w, EventKind.CONNECTED, connection, 0, 0, 0, 0, qpn_of(w, first), 0)


@internal
def make_queue_pair(w, side, row):
    """Make a side's queue pair anew, in state RTS, as the snapshot of its device has it."""
    device = device_row(w.devices, row.device)
    t, before = transport_at(device.base), transport_at(device.snapshot)
    q = queue_pair_at(t, uint64(row.row))
    is_ready = q.is_ready
    copy(address_of(q), address_of(queue_pair_at(before, uint64(row.row))), QUEUE_PAIR_SIZE)
    fill_zero(address_of(t) + t.original_offset + uint64(row.row) * ORIGINALS_SIZE, ORIGINALS_SIZE)
    q.is_ready = is_ready
    q.shared_queue = row.shared_queue + 1 if w.is_shared else 0
    q.qpn = (1 + row.numbers) * int64(t.queue_pairs) + row.row
    q.mtu = w.mtu
    q.timeout = uint64(w.timeout)
    q.retry_count = w.retry_count
    q.retries_left = w.retry_count
    q.rnr_retry = w.rnr_retry
    q.rnr_left = w.rnr_retry
    q.most_reads = w.reads
    q.most_responses = w.reads
    q.next_psn = first_psn(w, side, row.generation)
    q.unacknowledged = q.next_psn
    q.end_psn = q.next_psn
    q.expected = first_psn(w, side ^ 1, row.generation)


@internal
def first_psn(w, side, generation):
    """First PSN that a side sends: often shortly before the PSNs wrap."""
    drawn = draw(w.seed, PSN, side, generation)
    base = w.psn_base if drawn & 3 else drawn >> 2
    return (base - (drawn >> 4 & 31)) & PSN_MASK


@internal
def abandon(w, connection):
    """The programs of a connection end it while requests are under way."""
    row = side_row(w.sides, 2 * connection)
    if row.generation < GENERATIONS:
        break_connection(w, 2 * connection)


@internal
def begin(w):
    """Make the requests of all sides, and connect them."""
    for side in range(w.side_count):
        for generation in range(GENERATIONS):
            plan_side(w, side, generation)

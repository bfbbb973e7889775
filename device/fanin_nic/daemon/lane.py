"""A lane: the compiled loop that moves packets, work requests and data between port, engine and host interface.

`run` returns to Python only when there is something that Python does: a message on the control socket, an answer to a
JOIN or LEAVE, a signal, another thread that calls. With nothing to do it yields for a while, then sleeps in poll until
a packet, a doorbell, a message or a timer. In a device of several lanes each runs this loop in a thread of its own, and
lane 0 cuts the requests for all of them.
"""

from __future__ import annotations

import enum

import numpy as np
from numba import int64

from fanin_nic.daemon.dma import read_process, write_mapped, write_process
from fanin_nic.daemon.lanes.bell import ring_bell, silence
from fanin_nic.daemon.lanes.merge import completions_wait, has_failures, merge
from fanin_nic.daemon.lanes.split import requests_wait as clients_wait
from fanin_nic.daemon.lanes.split import split
from fanin_nic.engine import events
from fanin_nic.engine.actions import ACTION, ActionKind
from fanin_nic.engine.control.posting import can_post
from fanin_nic.engine.state import (
    U64,
    action_at,
    engine_at,
    header_at,
    queue_at,
)
from fanin_nic.hostif.rings import complete, fetch, pending, set_sleeping
from fanin_nic.native.compiled import compiled
from fanin_nic.native.libc import POLLFD, POLLIN, monotonic_ns, poll, sched_yield
from fanin_nic.native.memory import address_of, copy, fill_zero, load_acquire, load_u8, load_u64, record_at, store_u8
from fanin_nic.port.descriptors import PORT, RECEIVED
from fanin_nic.port.receive import receive
from fanin_nic.port.transmit import transmit
from fanin_wire import abi

MAX_NOTICES = 1024
MAX_NEWS = MAX_NOTICES // 2  # thereof PENDING: answers always find room
YIELDS = 50  # before sleep; letting a core go idle costs a wake-up of about 25 us
LONGEST_SLEEP = 10_000_000_000  # ns
CONTROL_INTERVAL = 1_000_000  # ns between looks at the control socket while there is work
LONGEST_RUN = 50_000_000  # ns
POSTS_PER_TURN = 32
SEGMENTS_PER_TURN = 512
MILLISECOND = 1_000_000


class Reason(enum.IntEnum):
    """Why `run` has returned."""

    CONTROL = 1
    NOTICES = 2
    TIME = 3  # Python handles signals only when it is back
    ATTENTION = 4  # another thread calls, or a request has failed that concerns several lanes


LANE = np.dtype(
    [
        ("engine", "u8"),  # address of the arena
        ("port", "u8"),  # address of the PORT record
        ("send_rings", "u8"),  # addresses of the send rings by queue; 0: none
        ("completion_rings", "u8"),  # addresses of the completion rings by queue
        ("memory_fds", "u8"),  # int32 descriptors of process memory by client; -1: none
        ("staging", "u8"),  # bytes read from process memory, before they are computed
        ("notices", "u8"),  # ACTION records for Python
        ("reads", "u8"),  # ACTION records of DMA reads that wait for room
        ("write_failed", "u8"),  # byte by queue: a result could not be written to the process
        ("splitter", "u8"),  # lane 0 of several: address of the SPLITTER; else 0
        ("host_bell", "u8"),  # one of several: address of the BELL of lane 0; else 0
        ("notice_count", "u4"),
        ("attention", "u4"),  # 1: another thread wants `run` to return
        ("queues", "u4"),  # 1 + highest queue in use
        ("control_fd", "i4"),
        ("receive_fd", "i4"),
        ("wake_fd", "i4"),  # a signal has come
        ("bell_fd", "i4"),  # another lane has work for this one
        ("doorbell_count", "u4"),
        ("read_count", "u4"),
        ("doorbells", "u8"),  # addresses of the clients' doorbell pages
        ("next_control", "u8"),  # ns
        ("cq_overflows", "u8"),
        ("dma_errors", "u8"),
        ("wqe", abi.WQE),
        ("cqe", abi.CQE),
        ("pollfd", POLLFD, (4,)),
    ],
    align=True,
)
_SCALARS = [name for name in LANE.names or () if name not in ("wqe", "cqe", "pollfd")]
WQE_SCRATCH = U64(LANE.fields["wqe"][1])  # type: ignore[index]
CQE_SCRATCH = U64(LANE.fields["cqe"][1])  # type: ignore[index]
POLLFDS = U64(LANE.fields["pollfd"][1])  # type: ignore[index]
POLLFD_SIZE = U64(POLLFD.itemsize)
ATTENTION_FLAG = U64(LANE.fields["attention"][1])  # type: ignore[index]

lane_at = record_at(LANE[_SCALARS])
cqe_at = record_at(abi.CQE)
received_at = record_at(RECEIVED)
port_at = record_at(PORT)
pollfd_at = record_at(POLLFD)
read_at = record_at(ACTION)

DMA_READ, DMA_WRITE = int(ActionKind.DMA_READ), int(ActionKind.DMA_WRITE)
COMPLETE, NOTICE = int(ActionKind.COMPLETE), int(ActionKind.NOTICE)
SUCCESS, PENDING = int(abi.Status["SUCCESS"]), int(abi.Status["PENDING"])
LOCAL_PROTECTION_ERROR = int(abi.Status["LOCAL_PROTECTION_ERROR"])
CONTROL, NOTICES, TIME, ATTENTION = (int(reason) for reason in Reason)
ACTION_SIZE, RECEIVED_SIZE = U64(ACTION.itemsize), U64(RECEIVED.itemsize)


@compiled
def run(lane_address):
    """Work until there is nothing to do, or something for Python."""
    lane = lane_at(U64(lane_address))
    idle = 0
    end = U64(monotonic_ns()) + U64(LONGEST_RUN)
    while True:
        now = U64(monotonic_ns())
        if turn(lane, now):
            idle = 0
        else:
            idle += 1
        if lane.notice_count:
            return NOTICES
        if load_acquire(U64(lane_address) + ATTENTION_FLAG) or (lane.splitter and has_failures(lane.splitter)):
            return ATTENTION
        if now >= lane.next_control:
            lane.next_control = now + U64(CONTROL_INTERVAL)
            if wait(lane, 0) and not is_only_port(lane):
                return CONTROL
        if now >= end:
            return TIME
        if idle > YIELDS:
            if not sleep(lane, now):
                return CONTROL
            idle = 0
        elif idle:
            sched_yield()


@compiled
def turn(lane, now):
    """One round: packets in, requests in, data, timers, actions out. True when something was done."""
    e = engine_at(lane.engine)
    work = take_packets(lane, e, now)
    if lane.splitter:
        work += split(lane.splitter)
    work += take_requests(lane, e, now)
    work += events.serve(lane.engine, SEGMENTS_PER_TURN, now)
    work += flush(lane, e, now)
    if now >= e.next_deadline:
        events.tick(lane.engine, now)
        work += 1 + flush(lane, e, now)
    if lane.splitter:
        work += merge(lane.splitter)
    return work != 0


@compiled
def take_packets(lane, e, now):
    """Everything that one receive brings, into the engine."""
    packets = receive(lane.port)
    table = port_at(lane.port).received_table
    for index in range(packets):
        if e.action_count > e.actions // 2:
            flush(lane, e, now)
        entry = received_at(table + U64(index) * RECEIVED_SIZE)
        events.packet(lane.engine, entry.address, entry.length, entry.source, now)
    if packets:
        events.batch_end(lane.engine, now)
        flush(lane, e, now)
    return int(packets)


@compiled
def take_requests(lane, e, now):
    """Work requests from the send rings, queue after queue."""
    taken = 0
    wqe = address_of(lane) + WQE_SCRATCH
    for queue in range(lane.queues):
        ring = load_u64(lane.send_rings + U64(queue * 8))
        if not ring or not queue_at(e, queue).active:
            continue
        for _ in range(POSTS_PER_TURN):
            if e.action_count > e.actions // 2 or not can_post(e, queue) or not fetch(ring, wqe):
                break
            events.post(lane.engine, queue, wqe, now)
            taken += 1
    return taken


@compiled
def flush(lane, e, now):
    """Perform all actions. DMA reads come last, for each brings more. Returns how many there were."""
    done = perform_all(lane, e)
    for number in range(lane.read_count):
        if e.action_count > e.actions // 2:
            done += perform_all(lane, e)
        finish_read(lane, number, now)
    lane.read_count = 0
    return done + perform_all(lane, e)


@compiled
def perform_all(lane, e):
    """Empty the table of actions."""
    count = U64(e.action_count)
    transmit(lane.port, address_of(action_at(e, 0)), address_of(header_at(e, 0)), count)
    for index in range(count):
        perform(lane, e, index, count)
    e.action_count = 0
    return int(count)


@compiled
def perform(lane, e, index, end):
    """One action other than SEND; of those up to `end`, a DMA write may take others with it."""
    action = action_at(e, index)
    if action.kind == DMA_WRITE:
        if not action.process:
            write_mapped(action)
        elif not write_process(lane.memory_fds, e, index, end):
            lane.dma_errors += U64(1)
            store_u8(lane.write_failed + U64(action.queue), 1)
    elif action.kind == DMA_READ:
        copy(lane.reads + U64(lane.read_count) * ACTION_SIZE, address_of(action), ACTION_SIZE)
        lane.read_count += 1
    elif action.kind == COMPLETE:
        report(lane, action)
    elif action.kind == NOTICE and lane.notice_count < (MAX_NEWS if action.status == PENDING else MAX_NOTICES):
        copy(lane.notices + U64(lane.notice_count) * ACTION_SIZE, address_of(action), ACTION_SIZE)
        lane.notice_count += 1


@compiled
def finish_read(lane, number, now):
    """A DMA read, and the event of its end."""
    action = read_at(lane.reads + U64(number) * ACTION_SIZE)
    status = read_process(lane.memory_fds, action, lane.staging)
    events.dma_done(
        lane.engine,
        action.queue,
        action.position,
        action.count,
        action.address_index,
        lane.staging,
        status,
        now,
    )


@compiled
def report(lane, action):
    """A completion queue entry for the host (step S6)."""
    ring = load_u64(lane.completion_rings + U64(action.queue) * U64(8))
    address = address_of(lane) + CQE_SCRATCH
    fill_zero(address, U64(64))
    cqe = cqe_at(address)
    cqe.wr_id = action.wr_id
    cqe.byte_length = action.byte_length
    cqe.missing = action.missing
    cqe.missing_kind = action.missing_kind
    cqe.jid = action.jid
    cqe.mid = action.mid
    cqe.status = action.status
    cqe.opcode = action.opcode
    cqe.positions = action.position
    cqe.qp = action.count
    failed = lane.write_failed + U64(action.queue)
    if load_u8(failed) and cqe.status == SUCCESS:
        cqe.status = LOCAL_PROTECTION_ERROR
        cqe.byte_length = 0
    store_u8(failed, 0)
    if ring and not complete(ring, address):
        lane.cq_overflows += U64(1)
    if lane.host_bell:
        ring_bell(lane.host_bell)


@compiled
def sleep(lane, now):
    """Sleep until something comes or a timer expires. False: there is something for Python."""
    set_sleeping(lane.doorbells, lane.doorbell_count, 1)
    woken = True
    if not requests_wait(lane):
        deadline = min(engine_at(lane.engine).next_deadline, now + U64(LONGEST_SLEEP))
        timeout = (deadline - now + U64(MILLISECOND - 1)) // U64(MILLISECOND) if deadline > now else U64(0)
        ready = wait(lane, int(timeout))
        woken = ready >= 0 and is_only_port(lane)
    set_sleeping(lane.doorbells, lane.doorbell_count, 0)
    return woken


@compiled
def requests_wait(lane):
    """Whether a send ring has a request that there is room for, or other lanes have completed one."""
    if lane.splitter and (clients_wait(lane.splitter) or completions_wait(lane.splitter)):
        return True
    e = engine_at(lane.engine)
    for queue in range(lane.queues):
        ring = load_u64(lane.send_rings + U64(queue * 8))
        if ring and can_post(e, queue) and pending(ring):
            return True
    return False


@compiled
def wait(lane, timeout_ms):
    """Poll the port, the control server, the signals and the bell; -1: a signal has come instead."""
    place = address_of(lane) + POLLFDS
    for index, descriptor in enumerate((lane.receive_fd, lane.control_fd, lane.wake_fd, lane.bell_fd)):
        entry = pollfd_at(place + U64(index) * POLLFD_SIZE)
        entry.fd = descriptor
        entry.events = POLLIN
        entry.revents = 0
    ready = poll(place, 4, timeout_ms)
    if pollfd_at(place + U64(3) * POLLFD_SIZE).revents:
        silence(lane.bell_fd)
    return ready


@compiled
def is_only_port(lane):
    """Whether the last `wait` found nothing but packets and rings of the bell."""
    place = address_of(lane) + POLLFDS
    return not pollfd_at(place + POLLFD_SIZE).revents and not pollfd_at(place + U64(2) * POLLFD_SIZE).revents


def prepare() -> None:
    """Have `run` compiled, or loaded from the cache, for the argument that `Device` gives it."""
    run.compile((int64,))

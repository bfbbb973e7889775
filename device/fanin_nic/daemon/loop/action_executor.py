"""The action executor: it sends packets, performs DMA, and stores completions and notices for the host.

A host without a NIC has no DMA: it is memcpy for mapped memory, else reads and writes of the memory file of a process.
A write of one segment there would cost a system call each, so writes that continue each other go out together, also if
other actions are between them in the table.
"""

from fanin_nic.daemon.loop.lane_record import CQE_SCRATCH, MAX_NOTICES
from fanin_nic.daemon.loop.remote import end_read, give_read, remote_of, send_all, start_read
from fanin_nic.daemon.splitter.tables import ring_doorbell
from fanin_nic.engine import events
from fanin_nic.engine.events import fail_write
from fanin_nic.engine.records.accessors import U64, action_at, header_at
from fanin_nic.engine.records.actions import ACTION, ActionKind
from fanin_nic.hostif.remote.queue_pair import remote_at
from fanin_nic.hostif.remote.transfer import write as write_remote
from fanin_nic.hostif.rings import store, store_arrival, wake
from fanin_nic.native.compiled import compiled
from fanin_nic.native.libc import IOVEC, pread, pwritev, stack_bytes
from fanin_nic.native.memory import (
    address_of,
    copy,
    fill_zero,
    full_fence,
    load_i32,
    load_u8,
    load_u64,
    record_at,
    store_u8,
)
from fanin_nic.native.profile import Stage, lap
from fanin_nic.native.streaming import stream
from fanin_nic.port.transmit import transmit
from fanin_wire import abi
from fanin_wire.abi import Status

WATCH_SPAN = 1_000_000  # ns after a packet in which each turn polls the port
MAX_PENDING_NOTICES = MAX_NOTICES // 2  # the rest is for answers
LOOK_AHEAD = 512  # actions
PIECES = 64  # of one system call
PIECES_SIZE = PIECES * IOVEC.itemsize
IOVEC_SIZE = U64(IOVEC.itemsize)
ACTION_SIZE, CQE_SIZE = U64(ACTION.itemsize), U64(abi.CQE.itemsize)
iovec_at = record_at(IOVEC)
cqe_at = record_at(abi.CQE)
read_at = record_at(ACTION)


# All actions


@compiled
def perform_actions(lane, e, now):
    """Perform all actions; returns how many there were. DMA reads come last, because each brings more actions."""
    done = execute_all(lane, e, now)
    for number in range(lane.read_count):
        if e.action_count > e.actions // 2:
            done += execute_all(lane, e, now)
        finish_read(lane, number, now)
    lane.read_count = 0
    done += execute_all(lane, e, now)
    if lane.overruns:
        fail_overrun(lane, e, now)
        done += execute_all(lane, e, now)
    return done


@compiled
def turn_remotes(lane, e, now):
    """Clients over RDMA: arrived data into the engine, completions out; returns how much there was."""
    work = 0
    for client in range(lane.remote_end):
        address = load_u64(lane.remotes + U64(client) * U64(8))
        slot = give_read(lane, address, now)
        while slot >= 0:
            perform_actions(lane, e, now)  # actions may read the data's slot; more data may come meanwhile
            end_read(lane, address, slot, now)
            work += 1
            slot = give_read(lane, address, now)
    work += perform_actions(lane, e, now) if work else 0
    return work + send_all(lane)


@compiled
def execute_all(lane, e, now):
    """Perform the actions in the table and clear it; returns how many there were."""
    count = U64(e.action_count)
    if transmit(lane.port, address_of(action_at(e, 0)), address_of(header_at(e, 0)), count):
        watch_port(lane, now)
    index, stage = U64(0), -1
    while index < U64(e.action_count):  # a write that fails may add a completion
        stage = begin_stage(lane.profile, stage, action_at(e, index).kind)
        execute(lane, e, index, count)
        index += U64(1)
    if lane.host_doorbell:
        wake_splitter(lane, e)
    else:
        wake_ranks(lane, e)
    begin_stage(lane.profile, stage, -1)
    e.action_count = 0
    return int(count)


@compiled
def execute(lane, e, index, end):
    """Perform one action other than SEND. A DMA write may perform others before `end` with it."""
    action = action_at(e, index)
    if action.kind == ActionKind.REDUCE:
        events.reduce(lane.engine, index)
        lane.streamed |= action.is_long
    elif action.kind == ActionKind.DMA_WRITE:
        if not action.process:
            write_mapped(action)
            lane.streamed |= action.is_long
        elif not write_unmapped(lane, e, index, end):
            lane.dma_errors += U64(1)
            fail_write(e, index, end)
    elif action.kind == ActionKind.DMA_READ:
        copy(lane.reads + U64(lane.read_count) * ACTION_SIZE, address_of(action), ACTION_SIZE)
        lane.read_count += 1
    elif action.kind == ActionKind.COMPLETE:
        write_completion(lane, action)
    elif action.kind == ActionKind.ARRIVAL:
        write_arrival(lane, action)
    elif action.kind == ActionKind.NOTICE and lane.notice_count < (
        MAX_PENDING_NOTICES if action.status == Status.PENDING else MAX_NOTICES
    ):
        copy(lane.notices + U64(lane.notice_count) * ACTION_SIZE, address_of(action), ACTION_SIZE)
        lane.notice_count += 1


@compiled
def begin_stage(profile, stage, kind):
    """The profiling stage of an action; a different one before it ends."""
    following = -1
    if kind in (ActionKind.REDUCE, ActionKind.SOURCE, ActionKind.TARGET):
        following = Stage.READ_AND_REDUCE
    elif kind == ActionKind.DMA_WRITE:
        following = Stage.DMA_WRITE
    elif kind == ActionKind.COMPLETE:
        following = Stage.COMPLETE
    if stage >= 0 and following != stage:
        lap(profile, stage)
    return following


@compiled
def watch_port(lane, now):
    """Poll the port in every turn for a while, because more packets may follow."""
    lane.watch_port_until = now + U64(WATCH_SPAN)
    lane.next_receive = U64(0)


@compiled
def fail_overrun(lane, e, now):
    """End the jobs of queues whose completions had no room, because their programs can not know what happened."""
    lane.overruns = 0
    for queue in range(lane.queues):
        if load_u8(lane.overrun + U64(queue)):
            store_u8(lane.overrun + U64(queue), 0)
            events.fail(lane.engine, queue, Status.CQ_OVERRUN, now)


# Memory of the ranks


@compiled
def write_unmapped(lane, e, index, end):
    """A result into the memory of a process, here or over RDMA. False: it may not be there."""
    address = remote_of(lane, action_at(e, index).process)
    if address:
        return write_remote(remote_at(address), e, index, end)
    return write_process(lane.memory_fds, e, index, end)


@compiled
def write_mapped(action):
    """Write a result into registered memory."""
    if action.is_long:
        stream(action.remote, action.payload, U64(action.length))
    else:
        copy(action.remote, action.payload, U64(action.length))


@compiled
def write_process(memory_fds, e, index, end):
    """Write a result into process memory, with the actions of the queue before `end` that continue it, which are then
    done. False: the memory is not, or not wholly, writable."""
    first = action_at(e, index)
    pieces = stack_bytes(PIECES_SIZE)
    count, length = 0, U64(0)
    for other in range(index, min(end, index + U64(LOOK_AHEAD))):
        action = action_at(e, other)
        if action.kind != ActionKind.DMA_WRITE or action.queue != first.queue or action.remote != first.remote + length:
            continue
        if action.mid != first.mid:  # a failed piece must fail its own request only
            continue
        piece = iovec_at(pieces + U64(count) * IOVEC_SIZE)
        piece.base = action.payload
        piece.length = action.length
        length += U64(action.length)
        action.kind = ActionKind.NONE
        count += 1
        if count == PIECES:
            break
    return pwritev(descriptor(memory_fds, first), pieces, count, int(first.remote)) == length


@compiled
def finish_read(lane, number, now):
    """Perform a DMA read and give the event of its end. If its process has died, the job ends with a lost member,
    instead of being poisoned as by unreadable memory."""
    action = read_at(lane.reads + U64(number) * ACTION_SIZE)
    address = remote_of(lane, action.process)
    if address:
        start_read(lane, address, action, now)
        return
    status = read_process(lane.memory_fds, action, lane.staging)
    lap(lane.profile, Stage.DMA_READ)
    if status == Status.PEER_LOST:
        events.fail(lane.engine, action.queue, Status.PEER_LOST, now)
        return
    events.dma_done(
        lane.engine, action.queue, action.position, action.count, action.address_index, lane.staging, status, now
    )
    lap(lane.profile, Stage.REDUCE)


@compiled
def read_process(memory_fds, action, staging):
    """Read process memory into the staging area; returns the status. PEER_LOST: the process has ended, which may show
    before its connection is closed. (The memory file of an ended process is empty; a wrong address is an error.)"""
    taken = pread(descriptor(memory_fds, action), staging, U64(action.length), int(action.remote))
    if taken == 0:
        return Status.PEER_LOST
    return Status.SUCCESS if taken == action.length else Status.LOCAL_PROTECTION_ERROR


@compiled
def descriptor(memory_fds, action):
    """Descriptor of an action's process memory; -1: none."""
    return load_i32(memory_fds + U64(action.process - 1) * U64(4))


@compiled
def fence_results(lane):
    """Make results that went past the caches visible before later stores."""
    if lane.streamed:
        full_fence()
        lane.streamed = 0


# Completions and wake-ups


@compiled
def write_completion(lane, action):
    """Store a completion queue entry for the host (step S6)."""
    fence_results(lane)
    ring = load_u64(lane.completion_rings + U64(action.queue) * U64(8))
    address = address_of(lane) + CQE_SCRATCH
    fill_zero(address, CQE_SIZE)
    cqe = cqe_at(address)
    cqe.wr_id = action.wr_id
    cqe.byte_length = action.byte_length
    cqe.missing = action.missing
    cqe.missing_kind = action.missing_kind
    cqe.lost_device = action.lost_device
    cqe.jid = action.jid
    cqe.mid = action.mid
    cqe.status = action.status
    cqe.opcode = action.opcode
    cqe.positions = action.position
    cqe.qp = action.count
    if ring and not store(ring, address):
        lane.cq_overflows += U64(1)
        lane.overruns = 1
        store_u8(lane.overrun + U64(action.queue), 1)


@compiled
def write_arrival(lane, action):
    """Data that a rank has not asked for yet."""
    ring = load_u64(lane.arrival_rings + U64(action.queue) * U64(8))
    if ring:
        store_arrival(ring, action)


@compiled
def wake_ranks(lane, e):
    """Wake the clients whose completions were stored, after all are: a woken client may take the device's core."""
    fenced = False
    for index in range(e.action_count):
        action = action_at(e, U64(index))
        if action.kind == ActionKind.COMPLETE:
            if not fenced:
                full_fence()
                fenced = True
            ring = load_u64(lane.completion_rings + U64(action.queue) * U64(8))
            if ring:
                wake(ring)


@compiled
def wake_splitter(lane, e):
    """Wake lane 0, which completes the ranks' requests, if there are completions for it. (It looks after its own.)"""
    for index in range(0 if lane.splitter else e.action_count):
        if action_at(e, U64(index)).kind == ActionKind.COMPLETE:
            ring_doorbell(lane.host_doorbell)
            return

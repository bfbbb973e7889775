"""Clients over RDMA in the loop of a lane: requests in, arrived data in, completions out."""

from numba import int64, uint32

from fanin_nic.daemon.loop.lane_record import CLIENT_OF_PROCESS
from fanin_nic.engine import events
from fanin_nic.engine.records.accessors import U64, engine_at, job_at, queue_at
from fanin_nic.engine.records.actions import ACTION
from fanin_nic.hostif.remote.queue_pair import ACTION_BYTES, ask_for_event, reap, remote_at
from fanin_nic.hostif.remote.transfer import (
    NOWHERE,
    begin_read,
    free_slot,
    post_waiting,
    send_completions,
    staging_of,
    take_read,
)
from fanin_nic.native.compiled import compiled
from fanin_nic.native.memory import load_u64, record_at
from fanin_wire.abi import Status

ACTION_SIZE = U64(ACTION_BYTES)

action_at = record_at(ACTION)


@compiled
def remote_of(lane, process):
    """Address of the REMOTE record of an action's `process`; 0: a process of this host."""
    return load_u64(lane.remotes + U64(process - CLIENT_OF_PROCESS) * U64(8)) if lane.remote_end else U64(0)


@compiled
def start_read(lane, address, action, now):
    """Begin a DMA_READ of a client over RDMA; `turn_remotes` ends it."""
    action.jid = job_of(lane, action)
    answer(lane, action, begin_read(remote_at(address), action), U64(0), now)


@compiled
def job_of(lane, action):
    """The job id of an action's queue; 0: none."""
    e = engine_at(lane.engine)
    queue = queue_at(e, action.queue)
    return job_at(e, queue.job - 1).jid if queue.active and queue.job else uint32(0)


@compiled
def answer(lane, action, status, data, now):
    """Tell the engine the end of a DMA_READ, if it has ended."""
    if status == Status.PENDING:
        return
    if status == Status.PEER_LOST:
        events.fail(lane.engine, action.queue, Status.PEER_LOST, now)
        return
    events.dma_done(lane.engine, action.queue, action.position, action.count, action.address_index, data, status, now)


@compiled
def take_messages(lane):
    """Take what has come from all clients over RDMA; returns how much."""
    work = 0
    for client in range(lane.remote_end):
        address = load_u64(lane.remotes + U64(client) * U64(8))
        if address:
            work += reap(remote_at(address))
    return work


@compiled
def give_read(lane, remote_address, now):
    """Give the engine one run of arrived data; returns its slot, for `end_read`; NOWHERE: none, or no client."""
    if not remote_address:
        return int64(NOWHERE)
    remote = remote_at(remote_address)
    slot = take_read(remote)
    if slot >= 0:
        action = action_at(remote.reads + U64(slot) * ACTION_SIZE)
        if action.jid == job_of(lane, action):  # else its queue is in another job by now, perhaps at the same position
            answer(lane, action, 0, staging_of(remote, U64(slot)), now)
    return slot


@compiled
def end_read(lane, remote_address, slot, now):
    """Free the slot of `give_read` for waiting READs. One whose memory is gone must not hold up those behind it."""
    remote = remote_at(remote_address)
    free_slot(remote, slot)
    refused, status = post_waiting(remote)
    while refused:
        action = action_at(refused)
        if action.jid == job_of(lane, action):
            answer(lane, action, status, U64(0), now)
        refused, status = post_waiting(remote)


@compiled
def send_all(lane):
    """Send on the completions of all clients over RDMA, note the lost clients; returns the number of messages."""
    work = 0
    for client in range(lane.remote_end):
        address = load_u64(lane.remotes + U64(client) * U64(8))
        if address:
            remote = remote_at(address)
            work += send_completions(remote)
            if remote.broken:
                lane.remote_broken = 1
    return work


@compiled
def remotes_wait(lane):
    """Ask each queue pair for an event before sleep; returns whether something has come already."""
    found = False
    for client in range(lane.remote_end):
        address = load_u64(lane.remotes + U64(client) * U64(8))
        if address and ask_for_event(remote_at(address)):
            found = True
    return found

"""The compiled entry points of the engine: one for each event, and what a compiled driver asks of it.

`base`: address of the arena; `now`: time in ns. Each event converts its arguments to fixed types, so that the code
behind it is compiled once for all callers. `can_post` and `fail_write` take the ENGINE record, since drivers call them
between events.
"""

from fanin_nic.engine.jobs import leave as leaving
from fanin_nic.engine.jobs.join import join as join_job
from fanin_nic.engine.jobs.missing import abort_naming
from fanin_nic.engine.liveness import discount_stall
from fanin_nic.engine.liveness import tick as pass_time
from fanin_nic.engine.output import retire
from fanin_nic.engine.packets import dispatch, ring
from fanin_nic.engine.records.accessors import U32, U64, engine_at, job_at, queue_at
from fanin_nic.engine.records.actions import RECEIVED_SIZE, received_at
from fanin_nic.engine.records.tables import Counter, JobState
from fanin_nic.engine.requests import local_reduce, posting, read
from fanin_nic.engine.requests.posting import can_post
from fanin_nic.engine.segments.complete import fail_write
from fanin_nic.engine.segments.rto import note_timer_lag
from fanin_nic.engine.slots import advance_base
from fanin_nic.native.compiled import compiled

__all__ = [
    "Counter",
    "add_region",
    "batch_end",
    "can_post",
    "dma_done",
    "end_job",
    "fail",
    "fail_write",
    "join",
    "leave",
    "lose",
    "note_stall",
    "packet",
    "packets",
    "post",
    "reduce",
    "remove_region",
    "serve",
    "tick",
]

TURN = 8  # segments of one queue before the next is served


@compiled
def packet(base, address, length, source, now):
    """Event: a packet with a right ICRC has arrived."""
    e = engine_at(U64(base))
    e.now = now
    dispatch.on_packet(e, U64(address), U64(length), U32(source))


@compiled
def packets(base, received, first, count, now):
    """Event: the packets `first` to `count` - 1 of a table of RECEIVED have arrived. Returns the number of the first
    one not taken: if the table of actions is half full, the driver must perform the actions before it goes on."""
    e = engine_at(U64(base))
    e.now = now
    index = first
    while index < count and e.action_count <= e.actions // 2:
        entry = received_at(U64(received) + U64(index) * RECEIVED_SIZE)
        dispatch.on_packet(e, entry.address, U64(entry.length), U32(entry.source))
        index += 1
    return index


@compiled
def batch_end(base, now):
    """Event: the end of a batch of packets. Sends the acknowledgements that are due."""
    e = engine_at(U64(base))
    e.now = now
    for index in range(e.job_end):
        job = job_at(e, index)
        if job.state != JobState.FREE and job.ack_pending:
            ring.acknowledge_batch(e, job)


@compiled
def post(base, queue, wqe, now):
    """Event: a work request was copied out of a send ring."""
    e = engine_at(U64(base))
    e.now = now
    posting.post(e, U32(queue), U64(wqe))


@compiled
def serve(base, budget, now):
    """Read from the ranks, queue after queue, up to `budget` segments; returns how many. The driver must have performed
    all earlier actions, because the windows move here, and nowhere else (record 0001)."""
    e = engine_at(U64(base))
    e.now = now
    for index in range(e.job_end):
        if job_at(e, index).state == JobState.ACTIVE:
            advance_base(e, job_at(e, index))
    total = 0
    progress = True
    while progress and total < budget and e.action_count < e.actions // 2:
        progress = False
        first = e.next_queue
        for step in range(e.queue_end):
            queue = (first + step) % e.queue_end
            if not queue_at(e, queue).active or not queue_at(e, queue).job:
                continue
            if e.action_count >= e.actions // 2 or total >= budget:
                break
            served = read.serve(e, queue, TURN)
            if posting.drain(e, queue, TURN) or served or retire(e, queue):
                progress = True
                e.next_queue = queue + 1
            total += served
    return total


@compiled
def reduce(base, index):
    """Perform the REDUCE `index` of the table of actions, with the SOURCEs and TARGETs behind it."""
    local_reduce.reduce(engine_at(U64(base)), U64(index))


@compiled
def dma_done(base, queue, position, count, entry, address, status, now):
    """Event: a DMA_READ has ended."""
    e = engine_at(U64(base))
    e.now = now
    read.finish_read(e, U32(queue), U32(position), U32(count), U32(entry), U64(address), U32(status))


@compiled
def tick(base, now):
    """Event: time has passed."""
    e = engine_at(U64(base))
    e.now = now
    note_timer_lag(e)
    pass_time(e)


@compiled
def note_stall(base, missed, now):
    """Event: this device has not run for `missed` ns, and was then given the packets that waited."""
    e = engine_at(U64(base))
    e.now = now
    discount_stall(e, U64(missed))


@compiled
def join(base, queue, event, now):
    """Event: a queue pair joins a job."""
    e = engine_at(U64(base))
    e.now = now
    join_job(e, U32(queue), U64(event))


@compiled
def leave(base, queue, tag, now):
    """Event: a queue pair leaves its job."""
    e = engine_at(U64(base))
    e.now = now
    leaving.leave_queue(e, U32(queue), U32(tag))


@compiled
def lose(base, queue, status, now):
    """Event: the process of a queue pair has ended."""
    e = engine_at(U64(base))
    e.now = now
    leaving.lose_queue(e, U32(queue), U32(status))


@compiled
def fail(base, queue, status, now):
    """Event: the requests of a queue pair can no longer be performed. Its job ends with `status`."""
    e = engine_at(U64(base))
    e.now = now
    leaving.fail_queue(e, U32(queue), U32(status))


@compiled
def end_job(base, queue, status, missing_kind, missing, lost_device, now):
    """Event: the job of a queue pair, if it has one, has ended in another lane of this device."""
    e = engine_at(U64(base))
    e.now = now
    if queue_at(e, queue).job:
        job = job_at(e, queue_at(e, queue).job - 1)
        abort_naming(e, job, status, missing_kind, U64(missing), U64(lost_device))


@compiled
def add_region(base, client, lkey, start, length, access, mapped):
    """A client has registered memory, mapped at `mapped`. False: the table is full, or the client has this key."""
    return posting.add_region(engine_at(U64(base)), client, lkey, U64(start), U64(length), access, U64(mapped))


@compiled
def remove_region(base, client, lkey):
    """False: the client has no such region."""
    return posting.remove_region(engine_at(U64(base)), client, lkey)

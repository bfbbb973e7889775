"""Jobs and the seg buffers they lease: a run of N slots of the device's pool."""

from __future__ import annotations

from fanin_nic.engine.segment import slots
from fanin_nic.engine.state import U64, job_at, queue_at
from fanin_nic.engine.tables import JOB, MAX_CHILDREN, JobState
from fanin_nic.native.compiled import internal
from fanin_nic.native.memory import address_of, count_bits, fill_zero
from fanin_wire.abi import JobFlag

FREE = int(JobState.FREE)
REPRODUCIBLE = int(JobFlag.REPRODUCIBLE_RUN | JobFlag.REPRODUCIBLE_SHAPE)
JOB_SIZE = U64(JOB.itemsize)


@internal
def find_job(e, jid):
    """1 + index of the job with an id; 0 if there is none."""
    if e.last_job < e.jobs:
        job = job_at(e, e.last_job)
        if job.jid == jid and job.state != FREE:
            return e.last_job + 1
    for index in range(e.jobs):
        job = job_at(e, index)
        if job.jid == jid and job.state != FREE:
            e.last_job = index
            return index + 1
    return 0


@internal
def new_job(e, jid, key):
    """1 + index of a fresh job record; 0 if the table is full."""
    for index in range(e.jobs):
        job = job_at(e, index)
        if job.state == FREE:
            fill_zero(address_of(job), JOB_SIZE)
            job.index = index
            job.jid = jid
            job.key = key
            job.rto = e.rto
            job.reorder = e.reorder
            job.buffers = 1
            return index + 1
    return 0


@internal
def run_is_free(e, first, count):
    """Whether no job leases a slot of a run."""
    for index in range(e.jobs):
        job = job_at(e, index)
        if job.state != FREE and first < job.slot_base + job.slots * job.buffers and job.slot_base < first + count:
            return False
    return True


@internal
def grant(e, offered, buffers):
    """Slots of `buffers` payloads each that can be leased now: the largest power of two that is free, at most what is
    offered; 0 if none."""
    size = e.min_lease
    while size * 2 <= offered and size * 2 * buffers <= e.max_lease:
        size *= 2
    while size >= e.min_lease and size <= offered and size * buffers <= e.max_lease:
        if first_run(e, size * buffers) >= 0:
            return size
        size //= 2
    return 0


@internal
def first_run(e, size):
    """First slot of a free run of `size` slots; -1 if there is none."""
    first = 0
    while first + size <= e.slots:
        if run_is_free(e, first, size):
            return first
        first += e.min_lease
    return -1


@internal
def set_buffers(job):
    """Payloads for each slot: a reproducible job keeps who comes early, each child in a buffer of its own."""
    children = count_bits(job.rank_mask) + count_bits(job.node_mask)
    job.buffers = children if job.flags & REPRODUCIBLE else 1


@internal
def lease(e, job, offered):
    """Give a job slots. False: not even the smallest lease is free."""
    size = grant(e, offered, job.buffers)
    if size == 0:
        return False
    job.slot_base = first_run(e, size * job.buffers)
    job.slots = size
    job.offered_slots = size
    return True


@internal
def start(e, job, count, window):
    """The lease is agreed: N slots (at most those held), W positions in flight."""
    job.slots = min(job.slots, count)
    job.window = max(1, min(window, job.slots // 2))
    job.base = e.first_position
    slots.clear_lease(e, job)


@internal
def give_back(e, job):
    """Free the slots of a job that has ended; its record stays."""
    e.slots_used -= job.occupied
    job.occupied = 0
    job.in_flight = 0
    job.slots = 0


@internal
def release(e, job):
    """Free the job and all that it holds."""
    give_back(e, job)
    for rank in range(MAX_CHILDREN):
        if job.queue[rank]:
            queue_at(e, job.queue[rank] - 1).job = 0
    job.state = FREE
    job.jid = 0

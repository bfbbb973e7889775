"""Job records, and the leases of jobs: runs of N slots of the device's pool, within the quota of their owner.

No owner can take all jobs or slots of a device, so later owners still find some. A fixed share would be too small for a
single owner and too large for one of many. So the share depends on what is free, as in the shared buffers of switches
(Choudhury and Hahne, *Dynamic queue length thresholds*): an owner may hold at most SHARE_FACTOR times what it leaves
free. A single owner gets three quarters, the next one three quarters of the rest; one without any may take the last. A
job counts for the owner that began it until another owner joins, then for none. Record 0043 lists what is shared so.
"""

from numba import int64

from fanin_nic.engine import slots
from fanin_nic.engine.records.accessors import (
    ONE,
    U64,
    ZERO,
    bit_of,
    child_at,
    child_index,
    job_at,
    queue_at,
    quotient_up,
)
from fanin_nic.engine.records.tables import JOB, JobState
from fanin_nic.engine.records.trace import trace_run
from fanin_nic.engine.slots import REPRODUCIBLE
from fanin_nic.native.compiled import internal
from fanin_nic.native.memory import address_of, count_bits, fill_zero
from fanin_wire.abi import MAX_CHILDREN, JobFlag
from fanin_wire.tap import Step

SHARE_FACTOR = 3
SHARED = 0  # owner of a job that several have joined
FIXED_START = JobFlag.FIXED_START | JobFlag.REPRODUCIBLE_SHAPE
JOB_SIZE = U64(JOB.itemsize)


# Records


@internal
def find_job(e, jid):
    """1 + index of the job with an id; 0 if none has it."""
    if e.last_job < e.jobs:
        job = job_at(e, e.last_job)
        if job.jid == jid and job.state != JobState.FREE:
            return e.last_job + 1
    for index in range(e.jobs):
        job = job_at(e, index)
        if job.jid == jid and job.state != JobState.FREE:
            e.last_job = index
            return index + 1
    return 0


@internal
def new_job(e, jid, key, owner):
    """1 + index of a fresh job record; 0 if the table is full or the owner has its share."""
    if jobs_allowed(e, owner) == 0:
        return 0
    index = claim_record(e)
    if index < 0:
        return 0
    clear_record(e, index, jid, key, owner)
    return index + 1


@internal
def claim_record(e):
    """Index of a free job record; -1 if none. In a full table an evictable tombstone gives way."""
    for index in range(e.jobs):
        if job_at(e, index).state == JobState.FREE:
            return index
    for index in range(e.jobs):
        if is_evictable(job_at(e, index)):
            release(e, job_at(e, index))
            return index
    return -1


@internal
def clear_record(e, index, jid, key, owner):
    e.job_end = max(e.job_end, index + 1)
    job = job_at(e, index)
    fill_zero(address_of(job), JOB_SIZE)
    job.index = index
    job.owner = owner
    job.jid = jid
    job.key = key
    job.rto = e.rto
    job.reorder = e.reorder
    job.span = job.buffers = 1
    for bit in range(MAX_CHILDREN):  # a prediction belongs to the record's former job
        child_at(e, child_index(job, bit)).predicted_length = 0


@internal
def is_evictable(job):
    """Whether a new job may evict it: a remote tombstone, or a ring's that is kept only for the previous node."""
    return is_remote_tombstone(job) or (
        job.state == JobState.ABORTED
        and job.slots == 0
        and job.window != 0
        and job.rank_joined & ~job.rank_left == ZERO
    )


@internal
def is_remote_tombstone(job):
    """Whether a record is the tombstone of a failure that a remote member reported, without members here."""
    return job.state == JobState.ABORTED and job.slots == 0 and job.rank_mask == ZERO and job.config_mask == ZERO


@internal
def release(e, job):
    """Free the job and all that it holds."""
    free_slots(e, job)
    for rank in range(MAX_CHILDREN):
        if job.queue[rank]:
            queue_at(e, job.queue[rank] - 1).job = 0
    job.state = JobState.FREE
    job.jid = 0


@internal
def free_slots(e, job):
    """Free the slots of a job that has ended; its record stays."""
    if job.slots:
        trace_run(e, job, Step.ENDED, 0, 0, job.slots, 0)
    e.slots_used -= job.occupied
    job.occupied = 0
    job.in_flight = 0
    job.slots = 0


# Leases


@internal
def set_buffers(e, job):
    """Set the payload buffers of each slot. A reproducible job has one for each device below, for data that come before
    their turn (`slots`)."""
    children = (job.rank_mask != ZERO) + count_bits(job.node_mask)
    job.span = quotient_up(job.chunk, e.max_chunk)
    job.buffers = job.span * (children if job.flags & REPRODUCIBLE else 1)


@internal
def take_lease(e, job, offered):
    """False: not even the smallest lease is free."""
    size = grantable_slots(e, job, offered)
    if size == 0:
        return False
    job.slot_base = first_free_run(e, size * int64(job.buffers))
    job.slots = size
    job.offered_slots = size
    return True


@internal
def grantable_slots(e, job, offered):
    """Slots that a job can lease: the largest free power of two, up to the owner's share and `offered`; 0 if none."""
    most = min(int64(e.max_lease), payloads_allowed(e, job)) // int64(job.buffers)
    size = int64(e.min_lease)
    while size * 2 <= offered and size * 2 <= most:
        size *= 2
    while e.min_lease <= size <= offered and size <= most:
        if first_free_run(e, size * int64(job.buffers)) >= 0:
            return size
        size //= 2
    return 0


@internal
def first_free_run(e, size):
    """First slot of a free run of `size`; -1 if none."""
    first, step = int64(0), int64(e.min_lease)
    while first + size <= int64(e.slots):
        end = end_of_lease_in(e, first, size)
        if end == 0:
            return first
        first = (end + step - 1) // step * step
    return -1


@internal
def end_of_lease_in(e, first, count):
    """End of a lease that overlaps a run of slots; 0 if none does."""
    for index in range(e.jobs):
        job = job_at(e, index)
        start = int64(job.slot_base)
        end = start + int64(job.slots) * int64(job.buffers)
        if job.state != JobState.FREE and start < end and first < end and start < first + count:
            return end
    return 0


@internal
def start_lease(e, job, count, window):
    """The lease is agreed: `count` slots (at most those held), `window` positions in flight."""
    job.slots = min(job.slots, count)
    job.window = max(1, min(window, job.slots // 2))
    job.base = e.first_position
    slots.clear_lease(e, job)


# Quotas


def share(held, free):
    """How many of `free` rows an owner of `held` rows may still take."""
    return max(1 if held == 0 and free > 0 else 0, (SHARE_FACTOR * free - held) // (SHARE_FACTOR + 1))


share_of = internal(share)


@internal
def jobs_allowed(e, owner):
    """How many more jobs an owner may begin here."""
    held, free = 0, 0
    for index in range(e.jobs):
        job = job_at(e, index)
        if job.state == JobState.FREE or is_evictable(job):
            free += 1
        elif job.owner == owner:
            held += 1
    return share_of(held, free) if e.shared else free


@internal
def payloads_allowed(e, job):
    """How many more payloads (slots times the payloads of each) the owner of a job may lease here."""
    held, free = int64(0), int64(e.slots)
    for index in range(e.jobs):
        other = job_at(e, index)
        if other.state != JobState.FREE:
            size = int64(other.slots) * int64(other.buffers)
            free -= size
            held += size if other.owner == job.owner else 0
    if not e.shared:
        return free
    least = int64(e.min_lease) * int64(job.buffers)
    return max(min(free, least) if held == 0 else 0, share_of(held, free))


# The order of a ring


@internal
def all_nodes(job):
    """Bitmap of all nodes; at most 64 form a ring."""
    return ~ZERO >> (U64(64) - U64(job.node_count))


@internal
def next_node(job):
    """Bitmap of the next node of a ring."""
    return bit_of((job.node_index + 1) % job.node_count)


@internal
def ring_start(job, sid):
    """Node at which a segment starts; it completes at the one before."""
    if job.flags & FIXED_START:
        return ZERO
    return (U64(sid) + ONE) % U64(job.node_count)


@internal
def nodes_before(job, sid):
    """Bitmap of the nodes that a segment passes before this one, from its start on."""
    nodes, node = ZERO, ring_start(job, sid)
    while node != U64(job.node_index):
        nodes |= bit_of(node)
        node = (node + ONE) % U64(job.node_count)
    return nodes

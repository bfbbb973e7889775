"""Quotas: no owner can take all jobs or slots of a device, so later owners still find some.

A fixed share would be too small for a single owner and too large for one of many. So the share depends on what is free,
as in the shared buffers of switches (Choudhury and Hahne, *Dynamic queue length thresholds*): an owner may hold at most
SHARE_FACTOR times what it leaves free. A single owner gets three quarters, the next one three quarters of the rest; one
without any may take the last. A job counts for the owner that began it until another owner joins, then for none. Record
0043 lists what is shared so.
"""

from numba import int64

from fanin_nic.engine.records.accessors import ZERO, job_at
from fanin_nic.engine.records.tables import JobState
from fanin_nic.native.compiled import internal

SHARE_FACTOR = 3
SHARED = 0  # owner of a job that several have joined


def share(held, free):
    """How many of `free` rows an owner of `held` rows may still take."""
    return max(1 if held == 0 and free > 0 else 0, (SHARE_FACTOR * free - held) // (SHARE_FACTOR + 1))


share_of = internal(share)


@internal
def is_remote_tombstone(job):
    """Whether a record is the tombstone of a failure that a remote member reported, without members here."""
    return job.state == JobState.ABORTED and job.slots == 0 and job.rank_mask == ZERO and job.config_mask == ZERO


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

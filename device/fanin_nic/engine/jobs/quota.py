"""Quotas: nobody can take all jobs or slots of a device, and whoever comes later still finds some.

A fixed share would be too small for who is alone, or too large for who is not. So it depends on what is left, as in the
shared buffers of switches (Choudhury and Hahne, *Dynamic queue length thresholds*): an owner may hold at most
GENEROSITY times what he leaves free. Alone he gets three quarters, the next one three quarters of the rest; who has
nothing may take the last.

A job is its owner's who began it, until somebody else has joined it: then it is nobody's any more.
"""

from __future__ import annotations

from numba import int64

from fanin_nic.engine.records.accessors import ZERO, job_at
from fanin_nic.engine.records.tables import JobState
from fanin_nic.native.compiled import internal

FREE, ABORTED = int(JobState.FREE), int(JobState.ABORTED)
GENEROSITY = 3
SHARED = 0  # owner of a job that several have joined


def share(held, free):
    """How many of `free` things somebody may take who holds `held` of their kind."""
    return max(1 if held == 0 and free > 0 else 0, (GENEROSITY * free - held) // (GENEROSITY + 1))


share_of = internal(share)


@internal
def is_remote_tombstone(job):
    """Whether a record only remembers that somebody has said that the job has failed, and nobody has come."""
    return job.state == ABORTED and job.slots == 0 and job.rank_mask == ZERO and job.config_mask == ZERO


@internal
def is_evictable(job):
    """Whether a record is worth less than a job that needs its place: hearsay, and what is kept of an ended ring whose
    ranks have left, for a previous node that may not know it."""
    return is_remote_tombstone(job) or (
        job.state == ABORTED and job.slots == 0 and job.window != 0 and job.rank_joined & ~job.rank_left == ZERO
    )


@internal
def jobs_allowed(e, owner):
    """How many more jobs an owner may begin here."""
    held, free = 0, 0
    for index in range(e.jobs):
        job = job_at(e, index)
        if job.state == FREE or is_evictable(job):
            free += 1
        elif job.owner == owner:
            held += 1
    return share_of(held, free) if e.shared else free


@internal
def payloads_allowed(e, job):
    """How many more payloads (slots, times the payloads for each) the owner of a job may lease here."""
    held, free = int64(0), int64(e.slots)
    for index in range(e.jobs):
        other = job_at(e, index)
        if other.state != FREE:
            size = int64(other.slots) * int64(other.buffers)
            free -= size
            held += size if other.owner == job.owner else 0
    if not e.shared:
        return free
    least = int64(e.min_lease) * int64(job.buffers)
    return max(min(free, least) if held == 0 else 0, share_of(held, free))

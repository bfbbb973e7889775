"""The child's side of multicast results: whether it hears the group of the device above (the other side: `multicast`).

A child hears the group from the first invitation on, as long as others follow. Where one packet is lost now and then,
the others serve all the same; but if several RESULTs in a row prove lost, and none has come by the group meanwhile, it
takes none there until another invitation is heard. Each time that this happens doubles how many it takes, and each
invitation that is heard without it makes it fewer again.
"""

from __future__ import annotations

from fanin_nic.engine.records.accessors import ZERO, bit_of
from fanin_nic.native.compiled import internal

MAX_CONSECUTIVE_LOSSES = 4  # prove that the group has lost its way
MAX_FAILURES = 6  # that count: 63 invitations go by
MISSED_INVITATIONS = 3  # in a row, after which the group is taken for gone


@internal
def is_group_member(e, job):
    """Whether results of the device above may come by its group."""
    return job.group_member != 0 and e.now - job.invitation_at <= e.keepalive * MISSED_INVITATIONS


@internal
def on_invitation(e, job, header):
    """Event: KEEPALIVE from the device above by its group."""
    if header.node_bitmap & bit_of(job.parent_bit) == ZERO:
        return
    job.invitation_at = e.now
    if job.invitations_ignored:
        job.invitations_ignored -= 1
        return
    if job.group_member:
        job.group_failures = max(job.group_failures, 1) - 1
    else:
        job.group_member = 1
        job.last_result_by_group = 1  # until something else is seen
        job.consecutive_losses = 0


@internal
def note_result_path(job, header):
    """A RESULT has come that nobody had asked for: by the group, or by itself."""
    job.last_result_by_group = 1 if header.node_bitmap & ~bit_of(job.parent_bit) != ZERO else 0
    job.consecutive_losses = 0


@internal
def note_group_loss(job):
    """A RESULT has proved lost."""
    if not job.group_member or not job.last_result_by_group:
        return
    job.consecutive_losses += 1
    if job.consecutive_losses == MAX_CONSECUTIVE_LOSSES:
        job.group_member = 0
        job.group_failures = min(job.group_failures + 1, MAX_FAILURES)
        job.invitations_ignored = (1 << job.group_failures) - 1

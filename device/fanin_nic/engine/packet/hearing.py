"""The child's side of multicast results: whether it hears the group of the device above (the other side: `multicast`).

A child hears the group from the first invitation on, as long as others follow. Where one packet is lost now and then,
the others serve all the same; but if several RESULTs in a row prove lost, and none has come by the group meanwhile, it
takes none there until another invitation is heard. Each time that this happens doubles how many it takes, and each
invitation that is heard without it makes it fewer again.
"""

from __future__ import annotations

from fanin_nic.engine.state import ZERO, bit_of
from fanin_nic.native.compiled import internal

LOSSES_IN_A_ROW = 4  # prove that the group has lost its way
MOST_FAILURES = 6  # that count: 63 invitations go by
MISSED_INVITATIONS = 3  # in a row, after which the group is taken for gone


@internal
def hears_group(e, job):
    """Whether results of the device above may come by its group."""
    return job.hears_group != 0 and e.now - job.invitation_at <= e.keepalive * MISSED_INVITATIONS


@internal
def on_invitation(e, job, header):
    """Event: KEEPALIVE from the device above by its group."""
    if header.node_bitmap & bit_of(job.parent_bit) == ZERO:
        return
    job.invitation_at = e.now
    if job.invitations_ignored:
        job.invitations_ignored -= 1
        return
    if job.hears_group:
        job.group_failures = max(job.group_failures, 1) - 1
    else:
        job.hears_group = 1
        job.comes_by_group = 1  # until something else is seen
        job.lost_in_a_row = 0


@internal
def note_way(job, header):
    """A RESULT has come that nobody had asked for: by the group, or by itself."""
    job.comes_by_group = 1 if header.node_bitmap & ~bit_of(job.parent_bit) != ZERO else 0
    job.lost_in_a_row = 0


@internal
def note_group_loss(job):
    """A RESULT has proved lost."""
    if not job.hears_group or not job.comes_by_group:
        return
    job.lost_in_a_row += 1
    if job.lost_in_a_row == LOSSES_IN_A_ROW:
        job.hears_group = 0
        job.group_failures = min(job.group_failures + 1, MOST_FAILURES)
        job.invitations_ignored = (1 << job.group_failures) - 1

"""The child's side of multicast results: whether it hears the group of the device above (the other side: `multicast`).

A child hears the group from the first invitation on, as long as others follow. A RESULT that proves lost, where results
came by the group or should have, ends it until another invitation is heard; each further such loss doubles how many it
takes, and each invitation that is heard without one makes it fewer again.
"""

from __future__ import annotations

from fanin_nic.engine.state import ZERO, bit_of
from fanin_nic.native.compiled import internal

MOST_LOSSES = 6  # that count: 63 invitations go by
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
        job.group_losses = max(job.group_losses, 1) - 1
    else:
        job.hears_group = 1
        job.comes_by_group = 1  # until something else is seen


@internal
def note_way(job, header):
    """A RESULT has come that nobody had asked for: by the group, or by itself."""
    job.comes_by_group = 1 if header.node_bitmap & ~bit_of(job.parent_bit) != ZERO else 0


@internal
def note_group_loss(job):
    """A RESULT has proved lost."""
    if job.hears_group and job.comes_by_group:
        job.hears_group = 0
        job.group_losses = min(job.group_losses + 1, MOST_LOSSES)
        job.invitations_ignored = (1 << job.group_losses) - 1

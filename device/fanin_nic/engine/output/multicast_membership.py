"""Membership of a child in the multicast group of the device above (the other side: `multicast`).

A child joins with the first invitation and stays while more follow; a single loss does not matter. If several RESULTs
in a row prove lost, and none came by the group meanwhile, it leaves until another invitation comes. Each such time
doubles the number of invitations that it ignores first; each invitation without such a loss reduces it. Record 0025:
why a switch learns this from its children.
"""

from fanin_nic.engine.records.accessors import ZERO, bit_of
from fanin_nic.native.compiled import internal

MAX_CONSECUTIVE_LOSSES = 4  # prove that the group does not reach this device
MAX_FAILURES = 6  # that count: 63 invitations are ignored
MISSED_INVITATIONS = 3  # in a row, after which the group is gone


@internal
def is_group_member(e, job):
    """Whether results of the device above may come by its group."""
    return job.group_member != 0 and e.now - job.invitation_at <= e.keepalive * MISSED_INVITATIONS


@internal
def on_invitation(e, job, header):
    """Event: an invitation, the KEEPALIVE of the device above to its group."""
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
        job.last_result_by_group = 1  # until a RESULT shows otherwise
        job.consecutive_losses = 0


@internal
def note_result_path(job, header):
    """Note whether a RESULT that was not probed for came by the group."""
    job.last_result_by_group = 1 if header.node_bitmap & ~bit_of(job.parent_bit) != ZERO else 0
    job.consecutive_losses = 0


@internal
def note_group_loss(job):
    """A RESULT has proved lost; leave the group after several in a row."""
    if not job.group_member or not job.last_result_by_group:
        return
    job.consecutive_losses += 1
    if job.consecutive_losses == MAX_CONSECUTIVE_LOSSES:
        job.group_member = 0
        job.group_failures = min(job.group_failures + 1, MAX_FAILURES)
        job.invitations_ignored = (1 << job.group_failures) - 1

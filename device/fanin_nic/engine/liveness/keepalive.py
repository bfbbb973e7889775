"""Silence: every device of a running job hears each of its neighbours once a keep-alive interval, or misses it.

Whatever is sent counts; a KEEPALIVE goes only to a neighbour that was sent nothing else in the interval, so it costs
nothing while traffic flows. A neighbour that was not heard for the detection time is lost, and the job with it. All
devices do this, in both directions, also while nothing is under way.
"""

from __future__ import annotations

from fanin_nic.engine.jobs.leave import progress_leave
from fanin_nic.engine.jobs.missing_scope import scope_above, scope_below
from fanin_nic.engine.jobs.ring_order import next_node
from fanin_nic.engine.output.encapsulate import packet
from fanin_nic.engine.output.multicast import invite, may_invite
from fanin_nic.engine.records.accessors import ONE, U64, ZERO, bit_of, child_at, child_index, header_at, job_at
from fanin_nic.engine.records.function_table import abort
from fanin_nic.engine.records.tables import MAX_CHILDREN, JobState, Leave
from fanin_nic.native.compiled import internal
from fanin_nic.native.memory import lowest_bit
from fanin_wire.abi import Route, Status
from fanin_wire.fields import Opcode

FREE = int(JobState.FREE)
RING = int(Route.RING)
KEEPALIVE = int(Opcode.KEEPALIVE)
PEER_LOST = int(Status.PEER_LOST)
NOT_YET = int(Leave.NOT_YET)
MAX_NEIGHBOURS = MAX_CHILDREN + 3  # and a group


@internal
def arm_timer(e, time):
    """A timer runs until `time`."""
    e.next_deadline = min(e.next_deadline, time)


@internal
def is_keepalive_due(e, said):
    """Whether a neighbour has been sent nothing for a keep-alive interval; the timer of the next look runs."""
    if e.now < said + e.keepalive:
        arm_timer(e, said + e.keepalive)
        return False
    arm_timer(e, e.now + e.keepalive)
    return True


@internal
def send_keepalives(e, job):
    """A quiet job says that it lives: to all neighbours that it has not left, or that have not left it."""
    if e.action_count and e.action_count + MAX_NEIGHBOURS > e.actions:
        arm_timer(e, e.now)  # when there is room again
        return
    if job.has_parent and job.parent_leave == NOT_YET and is_keepalive_due(e, job.said_above):
        header_at(e, packet(e, job, KEEPALIVE, job.parent_address)).source = job.parent_bit
    if job.route == RING:
        send_keepalives_ring(e, job)
    elif present_below(job):
        if is_keepalive_due(e, job.said_below):
            send_keepalives_below(e, job)
        if may_invite(e, job) and is_keepalive_due(e, job.invited_at):
            invite(e, job)


@internal
def send_keepalives_forming(e, job):
    """A node whose answer comes last through a large ring: the previous node runs already, and listens."""
    if job.route == RING and is_keepalive_due(e, job.said_previous):
        header_at(e, packet(e, job, KEEPALIVE, job.previous_address)).source = job.node_index


@internal
def send_keepalives_ring(e, job):
    """KEEPALIVE to the neighbours in a ring. The previous node listens until it leaves, also to one that has left."""
    if job.next_leave == NOT_YET and is_keepalive_due(e, job.said_next):
        header_at(e, packet(e, job, KEEPALIVE, job.next_address)).source = job.node_index
    if job.node_mask & ~job.node_left and is_keepalive_due(e, job.said_previous):
        header_at(e, packet(e, job, KEEPALIVE, job.previous_address)).source = job.node_index


@internal
def send_keepalives_below(e, job):
    """KEEPALIVE to the devices below."""
    job.said_below = e.now
    below = present_below(job)
    while below:
        bit = lowest_bit(below)
        below &= below - ONE
        header_at(e, packet(e, job, KEEPALIVE, child_at(e, child_index(job, bit)).address)).source = bit


@internal
def present_below(job):
    """The devices below that have joined and not left."""
    return job.node_joined & ~job.node_left


@internal
def is_silent(e, heard):
    """Whether a neighbour was not heard for the detection time; if it was, the timer of the next look runs."""
    if e.now > heard + e.detection:
        return True
    arm_timer(e, heard + e.detection + ONE)
    return False


@internal
def check_neighbours(e, job):
    """End a running job one of whose neighbours is silent."""
    if job.has_parent and is_silent(e, job.heard):
        abort_lost_above(e, job, False)
    elif job.route != RING:
        check_below(e, job)
    elif is_silent(e, job.heard_next):
        abort_lost_above(e, job, True)
    elif job.node_mask & ~job.node_left and is_silent(e, job.heard_previous):
        abort(e, job, PEER_LOST, scope_below(job), U64(job.node_mask))


@internal
def check_below(e, job):
    """End a job some of whose devices below are silent. Before it runs, its CONFIGs are what they say."""
    silent, below = ZERO, present_below(job)
    while below:
        bit = lowest_bit(below)
        below &= below - ONE
        if is_silent(e, child_at(e, child_index(job, bit)).heard):
            silent |= bit_of(bit)
    if silent != ZERO:
        abort(e, job, PEER_LOST, scope_below(job), silent)
        progress_leave(e, job)


@internal
def abort_lost_above(e, job, is_next):
    """The next node of a ring, or the device above, is silent: with it all that is behind it is lost."""
    if is_next:
        abort(e, job, PEER_LOST, scope_below(job), next_node(job))
    else:
        abort(e, job, PEER_LOST, scope_above(job), U64(job.parent_mask))


@internal
def discount_stall(e, missed):
    """This device stood still for `missed` ns and did not listen: nobody was silent for so long."""
    for index in range(e.jobs):
        job = job_at(e, index)
        if job.state == FREE:
            continue
        job.heard = min(e.now, job.heard + missed)
        job.heard_next = min(e.now, job.heard_next + missed)
        job.heard_previous = min(e.now, job.heard_previous + missed)
        below = U64(job.node_joined) if job.route != RING else ZERO
        while below:
            child = child_at(e, child_index(job, lowest_bit(below)))
            below &= below - ONE
            child.heard = min(e.now, child.heard + missed)

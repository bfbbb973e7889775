"""Keep-alives, and the loss of a neighbour: each device of a running job hears all neighbours once an interval.

Every packet counts. A KEEPALIVE goes only to a neighbour that was sent nothing else in the interval, so it costs
nothing while traffic flows. A neighbour silent for the detection time is lost, and the job ends. All devices do this in
both directions, also between operations. Record 0032: why all watch each other.
"""

from fanin_nic.engine.jobs.leave import progress_leave
from fanin_nic.engine.jobs.lost_device import abort_lost
from fanin_nic.engine.jobs.missing_scope import scope_above, scope_below
from fanin_nic.engine.jobs.ring_order import next_node
from fanin_nic.engine.output.encapsulate import packet
from fanin_nic.engine.output.multicast import invite, may_invite
from fanin_nic.engine.records.accessors import ONE, U64, ZERO, bit_of, child_at, child_index, header_at, job_at
from fanin_nic.engine.records.tables import MAX_CHILDREN, JobState, Leave
from fanin_nic.native.compiled import internal
from fanin_nic.native.memory import lowest_bit
from fanin_wire.abi import Route
from fanin_wire.fields import Opcode

MAX_NEIGHBOURS = MAX_CHILDREN + 3  # also the device above, the next node and a group


@internal
def arm_timer(e, time):
    e.next_deadline = min(e.next_deadline, time)


@internal
def is_keepalive_due(e, said):
    """Whether a neighbour was sent nothing for a keep-alive interval. Arms the timer for the next check."""
    if e.now < said + e.keepalive:
        arm_timer(e, said + e.keepalive)
        return False
    arm_timer(e, e.now + e.keepalive)
    return True


@internal
def send_keepalives(e, job):
    """KEEPALIVE to all quiet neighbours that this device has not left and that have not left it."""
    if e.action_count and e.action_count + MAX_NEIGHBOURS > e.actions:
        arm_timer(e, e.now)  # go on when there is room again
        return
    if job.has_parent and job.parent_leave == Leave.NOT_YET and is_keepalive_due(e, job.sent_above):
        header_at(e, packet(e, job, Opcode.KEEPALIVE, job.parent_address)).source = job.parent_bit
    if job.route == Route.RING:
        send_keepalives_ring(e, job)
    elif present_below(job):
        if is_keepalive_due(e, job.sent_below):
            send_keepalives_below(e, job)
        if may_invite(e, job) and is_keepalive_due(e, job.invited_at):
            invite(e, job)


@internal
def send_keepalives_forming(e, job):
    """KEEPALIVE to the previous node, which may run and listen while the CONFIG_ACK travels round a large ring."""
    if job.route == Route.RING and is_keepalive_due(e, job.sent_previous):
        header_at(e, packet(e, job, Opcode.KEEPALIVE, job.previous_address)).source = job.node_index


@internal
def send_keepalives_ring(e, job):
    """KEEPALIVE to both neighbours. The previous node listens until it leaves, also to a node that has left."""
    if job.next_leave == Leave.NOT_YET and is_keepalive_due(e, job.sent_next):
        header_at(e, packet(e, job, Opcode.KEEPALIVE, job.next_address)).source = job.node_index
    if job.node_mask & ~job.node_left and is_keepalive_due(e, job.sent_previous):
        header_at(e, packet(e, job, Opcode.KEEPALIVE, job.previous_address)).source = job.node_index


@internal
def send_keepalives_below(e, job):
    job.sent_below = e.now
    below = present_below(job)
    while below:
        bit = lowest_bit(below)
        below &= below - ONE
        header_at(e, packet(e, job, Opcode.KEEPALIVE, child_at(e, child_index(job, bit)).address)).source = bit


@internal
def present_below(job):
    """Devices below that have joined and not left."""
    return job.node_joined & ~job.node_left


@internal
def is_silent(e, heard):
    """Whether a neighbour was silent for the detection time. If not, arms the timer for the next check."""
    if e.now > heard + e.detection:
        return True
    arm_timer(e, heard + e.detection + ONE)
    return False


@internal
def check_neighbours(e, job):
    """End a running job that has lost a neighbour."""
    if job.has_parent and is_silent(e, job.heard):
        abort_lost_above(e, job, False)
    elif job.route != Route.RING:
        check_below(e, job)
    elif is_silent(e, job.heard_next):
        abort_lost_above(e, job, True)
    elif job.node_mask & ~job.node_left and is_silent(e, job.heard_previous):
        abort_lost(e, job, scope_below(job), U64(job.node_mask), job.previous_address)


@internal
def check_below(e, job):
    """End a job that has lost devices below. Before it runs, their CONFIGs count as keep-alives."""
    silent, below, address = ZERO, present_below(job), 0
    while below:
        bit = lowest_bit(below)
        below &= below - ONE
        child = child_at(e, child_index(job, bit))
        if is_silent(e, child.heard):
            address = 0 if silent else child.address
            silent |= bit_of(bit)
    if silent != ZERO:
        abort_lost(e, job, scope_below(job), silent, address)
        progress_leave(e, job)


@internal
def abort_lost_above(e, job, is_next):
    """The next node of a ring, or the device above, is lost, and all members behind it."""
    if is_next:
        abort_lost(e, job, scope_below(job), next_node(job), job.next_address)
    else:
        abort_lost(e, job, scope_above(job), U64(job.parent_mask), job.parent_address)


@internal
def discount_stall(e, missed):
    """This device stood still for `missed` ns and heard nothing: no neighbour counts as silent for that time."""
    for index in range(e.jobs):
        job = job_at(e, index)
        if job.state == JobState.FREE:
            continue
        job.stalled_ns += missed
        job.path_proved_at = min(e.now, job.path_proved_at + missed)
        job.heard = min(e.now, job.heard + missed)
        job.heard_next = min(e.now, job.heard_next + missed)
        job.heard_previous = min(e.now, job.heard_previous + missed)
        below = U64(job.node_joined) if job.route != Route.RING else ZERO
        while below:
            child = child_at(e, child_index(job, lowest_bit(below)))
            below &= below - ONE
            child.heard = min(e.now, child.heard + missed)

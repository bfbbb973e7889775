"""The timers of all jobs: probes, repetitions, deadlines, keep-alives and the loss of a neighbour.

Every packet counts. A KEEPALIVE goes only to a neighbour that was sent nothing else in the interval, so it costs
nothing while traffic flows. A neighbour silent for the detection time is lost, and the job ends. All devices do this in
both directions, also between operations. Record 0032: why all watch each other.
"""

from fanin_nic.engine.jobs.abort import free_record
from fanin_nic.engine.jobs.config import (
    abort_path,
    forwards_config,
    is_leaving,
    loses_long_packets,
    send_config,
    send_leaves,
)
from fanin_nic.engine.jobs.lease import next_node
from fanin_nic.engine.jobs.leave import progress_leave
from fanin_nic.engine.jobs.missing import abort_lost, scope_above, scope_below
from fanin_nic.engine.output import invite, may_invite, packet
from fanin_nic.engine.packets.ring import ACK_POSITIONS, probe_next
from fanin_nic.engine.packets.tree import probe_above
from fanin_nic.engine.records.accessors import (
    NEVER,
    ONE,
    U64,
    ZERO,
    abort,
    bit_of,
    child_at,
    child_index,
    count,
    distance,
    header_at,
    job_at,
    queue_at,
    request_at,
    request_index,
    slot_at,
    slot_index,
)
from fanin_nic.engine.records.tables import Counter, JobState, Leave
from fanin_nic.engine.segments.rto import awaits_answer, back_off, due_time, is_loss_suspected, missing_for_position
from fanin_nic.native.compiled import internal
from fanin_nic.native.memory import lowest_bit
from fanin_wire.abi import MAX_CHILDREN, Route, Status
from fanin_wire.fields import Opcode

MAX_NEIGHBOURS = MAX_CHILDREN + 3  # also the device above, the next node and a group
MIN_LEAVES = 5  # sent, however short the detection time


@internal
def tick(e):
    """Do what is due, and set the time of the next call."""
    e.next_deadline = NEVER
    for index in range(e.jobs):
        job = job_at(e, index)
        if job.state != JobState.FREE:
            tick_job(e, job)


@internal
def tick_job(e, job):
    if is_leaving(job):
        tick_leave(e, job)
    elif job.state == JobState.CONFIGURING:
        tick_config(e, job)
    elif job.state == JobState.ACTIVE and not e.is_switch:  # a switch needs no timers for its data
        tick_active(e, job)
    if job.state == JobState.ACTIVE or job.state == JobState.LEAVING:
        send_keepalives(e, job)
    elif job.state == JobState.CONFIGURING:
        send_keepalives_forming(e, job)
    if job.state == JobState.ACTIVE:
        check_neighbours(e, job)
    elif e.is_switch and (job.state == JobState.JOINING or job.state == JobState.CONFIGURING):
        check_below(e, job)
    if job.state != JobState.FREE and (e.is_switch or job.state > JobState.ACTIVE):
        tick_ageing(e, job)


@internal
def tick_leave(e, job):
    """Repeat LEAVE. A neighbour that has not answered it for the detection time counts as gone."""
    if job.deadline > e.now:
        arm_timer(e, job.deadline)
    elif job.retries < MIN_LEAVES or e.now < job.leaving_since + e.detection:
        send_leaves(e, job)
    else:
        job.parent_leave = Leave.ACKNOWLEDGED
        job.next_leave = Leave.ACKNOWLEDGED
        progress_leave(e, job)


@internal
def tick_config(e, job):
    """Repeat CONFIG as long as a neighbour answers and the path carries long packets."""
    if e.now - (job.heard_next if forwards_config(job) else job.heard) > e.detection:
        abort_lost_above(e, job, forwards_config(job))
    elif loses_long_packets(e, job):
        abort_path(e, job, forwards_config(job))
    elif job.deadline > e.now:
        arm_timer(e, job.deadline)
    else:
        send_config(e, job)


@internal
def tick_active(e, job):
    """The timers of a running job on a NIC."""
    probe_due(e, job)
    check_deadlines(e, job)


@internal
def probe_due(e, job):
    """PROBE for the positions that are due: all whose loss is suspected, and of the silent ones the lowest that waits
    for the device above and the lowest that waits for the next node."""
    waits_above, waits_beside, reach = False, False, U64(job.base)
    for offset in range(job.slots if job.in_flight else 0):
        slot = slot_at(e, slot_index(job, job.base + offset))
        if not awaits_answer(slot):
            continue
        is_lowest = not (waits_beside if slot.unacked else waits_above)
        waits_above |= slot.unacked == 0
        waits_beside |= slot.unacked != 0
        if not is_lowest and not is_loss_suspected(slot):
            continue
        if due_time(e, job, slot) > e.now:
            arm_timer(e, due_time(e, job, slot))
        elif e.action_count >= e.actions // 2:  # go on when these are sent
            arm_timer(e, e.now)
            return
        else:
            reach = probe(e, job, slot, reach)
            if job.state != JobState.ACTIVE:
                return


@internal
def probe(e, job, slot, reach):
    """PROBE for a position; in a ring only from `reach` on, as one answer covers many. Returns the new reach."""
    if not slot.unacked:
        probe_above(e, job, slot)
    elif distance(slot.position, reach) >= 0:
        probe_next(e, job, slot)
        reach = U64(slot.position) + U64(ACK_POSITIONS)
    back_off(e, job, slot)
    return reach


@internal
def check_deadlines(e, job):
    """End the job if the deadline of a request has passed, as its stream can not stay in step."""
    for rank in range(MAX_CHILDREN):
        if not job.queue[rank]:
            continue
        queue_index = job.queue[rank] - 1
        queue = queue_at(e, queue_index)
        for offset in range(U64(queue.tail - queue.head) & U64(0xFFFFFFFF)):
            request = request_at(e, request_index(e, queue_index, queue.head + offset))
            if request.deadline and request.deadline <= e.now:
                time_out(e, job)
                return
            if request.deadline:
                arm_timer(e, request.deadline)


@internal
def time_out(e, job):
    """Names the missing members of the first position that is not done."""
    scope, missing = missing_for_position(e, job, job.base)
    abort(e, job, Status.TIMEOUT, scope, missing)


@internal
def tick_ageing(e, job):
    """Free a job that no neighbour has mentioned for the ageing time."""
    latest = last_heard(e, job)
    if e.now - latest > e.ageing:
        count(e, Counter.JOBS_AGED)
        free_record(e, job)
    else:
        arm_timer(e, latest + e.ageing + ONE)


@internal
def last_heard(e, job):
    """Time in ns of the last packet of any device below; in a ring, of a neighbour."""
    latest = max(job.heard, max(job.heard_next, job.heard_previous))
    below = job.node_joined
    while below and e.is_switch:
        bit = lowest_bit(below)
        below &= below - ONE
        latest = max(latest, U64(child_at(e, child_index(job, bit)).heard))
    return latest


@internal
def arm_timer(e, time):
    e.next_deadline = min(e.next_deadline, time)


# Keep-alives


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
def send_keepalives_forming(e, job):
    """KEEPALIVE to the previous node, which may run and listen while the CONFIG_ACK travels round a large ring."""
    if job.route == Route.RING and is_keepalive_due(e, job.sent_previous):
        header_at(e, packet(e, job, Opcode.KEEPALIVE, job.previous_address)).source = job.node_index


@internal
def is_keepalive_due(e, said):
    """Whether a neighbour was sent nothing for a keep-alive interval. Arms the timer for the next check."""
    if e.now < said + e.keepalive:
        arm_timer(e, said + e.keepalive)
        return False
    arm_timer(e, e.now + e.keepalive)
    return True


@internal
def present_below(job):
    """Devices below that have joined and not left."""
    return job.node_joined & ~job.node_left


# Silent neighbours


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
def is_silent(e, heard):
    """Whether a neighbour was silent for the detection time. If not, arms the timer for the next check."""
    if e.now > heard + e.detection:
        return True
    arm_timer(e, heard + e.detection + ONE)
    return False


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

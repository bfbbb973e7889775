"""The timers of all jobs: probes, repetitions of CONFIG and LEAVE, deadlines of requests, ageing, keep-alives."""

from fanin_nic.engine.jobs.config_leave_tx import forwards_config, is_leaving, send_config, send_leaves
from fanin_nic.engine.jobs.leave import progress_leave
from fanin_nic.engine.jobs.path_mtu import abort_path, loses_long_packets
from fanin_nic.engine.jobs.tombstone import free_record
from fanin_nic.engine.liveness.keepalive import (
    abort_lost_above,
    arm_timer,
    check_below,
    check_neighbours,
    send_keepalives,
    send_keepalives_forming,
)
from fanin_nic.engine.packets.ring import ACK_POSITIONS, probe_next
from fanin_nic.engine.packets.tree import probe_above
from fanin_nic.engine.records.accessors import (
    NEVER,
    ONE,
    U64,
    child_at,
    child_index,
    count,
    distance,
    job_at,
    queue_at,
    request_at,
    request_index,
    slot_at,
    slot_index,
)
from fanin_nic.engine.records.function_table import abort
from fanin_nic.engine.records.tables import MAX_CHILDREN, Counter, JobState, Leave
from fanin_nic.engine.segments.missing_members import missing_for_position
from fanin_nic.engine.segments.rto import awaits_answer, back_off, due_time, is_loss_suspected
from fanin_nic.native.compiled import internal
from fanin_nic.native.memory import lowest_bit
from fanin_wire.abi import Status

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

"""Time passes: probes, repetitions of CONFIG and LEAVE, keep-alives, silence, deadlines of requests, ageing."""

from __future__ import annotations

from fanin_nic.engine.control.abort import abort, cut_off
from fanin_nic.engine.control.lease import release
from fanin_nic.engine.control.leave import progress_leave
from fanin_nic.engine.control.upward import send_config, send_leave
from fanin_nic.engine.packet.encapsulate import packet
from fanin_nic.engine.packet.tree import probe_above
from fanin_nic.engine.recovery.timers import back_off
from fanin_nic.engine.segment import slots
from fanin_nic.engine.segment.complete import all_nodes
from fanin_nic.engine.segment.rank import ring_start
from fanin_nic.engine.state import (
    MAX_CHILDREN,
    NEVER,
    ONE,
    U64,
    ZERO,
    Counter,
    JobState,
    Leave,
    bit_of,
    child_at,
    child_index,
    count,
    header_at,
    job_at,
    queue_at,
    request_at,
    request_index,
    slot_at,
    slot_index,
)
from fanin_nic.native.compiled import compiled
from fanin_nic.native.memory import lowest_bit
from fanin_wire.abi import Route, Status
from fanin_wire.fields import Opcode

LOCAL = slots.LOCAL
FREE, JOINING, CONFIGURING = int(JobState.FREE), int(JobState.JOINING), int(JobState.CONFIGURING)
ACTIVE, ABORTED = int(JobState.ACTIVE), int(JobState.ABORTED)
REPEATED, ACKNOWLEDGED = int(Leave.REPEATED), int(Leave.ACKNOWLEDGED)
RING = int(Route.RING)
KEEPALIVE = int(Opcode.KEEPALIVE)
PEER_LOST, TIMEOUT = int(Status.PEER_LOST), int(Status.TIMEOUT)
JOBS_AGED = int(Counter.JOBS_AGED)
UNANSWERED_LEAVES = 20  # about 10 s; then whoever should have answered is taken for gone
UNANSWERED_PROBES = 3


@compiled
def tick(e):
    """Do what is due, and set the time of the next thing that will be."""
    e.next_deadline = NEVER
    for index in range(e.jobs):
        job = job_at(e, index)
        if job.state != FREE:
            tick_job(e, job)


@compiled
def expect(e, time):
    """A timer runs until `time`."""
    e.next_deadline = min(e.next_deadline, time)


@compiled
def tick_job(e, job):
    """One job."""
    if job.leave == REPEATED:
        tick_leave(e, job)
    elif job.state == CONFIGURING:
        tick_config(e, job)
    elif job.state == ACTIVE:
        tick_active(e, job)
    if job.state != FREE and (e.is_switch or job.state > ACTIVE):
        tick_ageing(e, job)


@compiled
def tick_leave(e, job):
    """LEAVE is repeated; one that nobody answers counts as answered in the end."""
    if job.deadline > e.now:
        expect(e, job.deadline)
    elif job.retries < UNANSWERED_LEAVES:
        send_leave(e, job)
    else:
        job.leave = ACKNOWLEDGED
        progress_leave(e, job)


@compiled
def tick_config(e, job):
    """CONFIG is repeated as long as somebody answers."""
    if e.now - job.heard > e.detection:
        abort(e, job, PEER_LOST, 1, cut_off(job))
    elif job.deadline > e.now:
        expect(e, job.deadline)
    else:
        send_config(e, job)


@compiled
def tick_active(e, job):
    """A running job on a NIC; a switch needs no timers for its data."""
    if not e.is_switch:
        probe_due(e, job)
        if job.state == ACTIVE:
            check_deadlines(e, job)
        if job.state == ACTIVE and job.has_parent:
            keep_alive(e, job)


@compiled
def probe_due(e, job):
    """PROBE for each position whose time-out has expired."""
    for offset in range(job.slots if job.in_flight else 0):
        slot = slot_at(e, slot_index(job, job.base + offset))
        if not (slot.unacked or (slot.state == LOCAL and job.route != RING)):
            continue
        if slot.deadline > e.now:
            expect(e, slot.deadline)
        elif slot.retries >= UNANSWERED_PROBES and e.now - max(job.heard, slot.sent_at) > e.detection:
            abort(e, job, PEER_LOST, 1, cut_off(job))
            return
        elif e.action_count >= e.actions // 2:  # the rest when these are sent
            expect(e, e.now)
            return
        else:
            probe_above(e, job, slot)
            back_off(e, job, slot)


@compiled
def check_deadlines(e, job):
    """Requests whose deadline has passed end the job: the stream could not be in step any more."""
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
                expect(e, request.deadline)


@compiled
def time_out(e, job):
    """TIMEOUT, naming who is missing for the first position that is not done."""
    slot = slot_at(e, slot_index(job, job.base))
    here = slot.rank_missing if slot.position == job.base else job.rank_mask
    if slot.position == job.base and here == ZERO:
        abort(e, job, TIMEOUT, 1, ring_suspects(e, job) if job.route == RING else slot.node_missing | job.missing)
    else:
        abort(e, job, TIMEOUT, 0, here)


@compiled
def ring_suspects(e, job):
    """Nodes that can be what all positions in flight wait for. A partial that is not here waits somewhere between the
    node where it started and this one, one that was sent on somewhere behind; positions start at different nodes, so
    that what they have in common is who is missing, if it is one node."""
    common = all_nodes(job) & ~bit_of(job.node_index)
    for offset in range(job.window):
        slot = slot_at(e, slot_index(job, job.base + offset))
        if slot.position != U64(job.base + offset) & U64(0xFFFFFFFF) or slot.state == slots.DONE:
            continue
        waited = behind(job, slot.sid) if slot.node_missing != ZERO else slot.nodes & ~bit_of(job.node_index)
        if common & waited == ZERO:  # more than one node
            return common | waited
        common &= waited
    return common


@compiled
def behind(job, sid):
    """Nodes from that at which a segment of the ring starts up to the one before this."""
    nodes, node = ZERO, ring_start(job, sid)
    while node != U64(job.node_index):
        nodes |= bit_of(node)
        node = (node + ONE) % U64(job.node_count)
    return nodes


@compiled
def keep_alive(e, job):
    """A silent job says that it lives; a ring also listens for the previous node."""
    if job.next_keepalive <= e.now:
        header = header_at(e, packet(e, job, KEEPALIVE, job.parent_address))
        header.source = job.parent_bit
        job.next_keepalive = e.now + e.keepalive
    expect(e, job.next_keepalive)
    if job.route == RING and job.in_flight and e.now - job.heard_previous > e.detection:
        abort(e, job, PEER_LOST, 1, job.node_mask)


@compiled
def tick_ageing(e, job):
    """A job that nobody below speaks for any more is freed."""
    latest = latest_sign(e, job)
    if e.now - latest > e.ageing:
        count(e, JOBS_AGED)
        release(e, job)
    else:
        expect(e, latest + e.ageing + ONE)


@compiled
def latest_sign(e, job):
    """When any device below (in a ring: a neighbour) was last heard."""
    latest = max(job.heard, job.heard_previous)
    below = job.node_joined
    while below and e.is_switch:
        bit = lowest_bit(below)
        below &= below - ONE
        latest = max(latest, U64(child_at(e, child_index(job, bit)).heard))
    return latest

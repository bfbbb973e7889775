"""Forming a job: CONFIG goes up like a reduction, CONFIG_ACK comes down with the lease or a refusal."""

from numba import int64, uint64

from fanin_nic.engine.jobs import config
from fanin_nic.engine.jobs.abort import gives_way_to, remember_refusal, send_abort
from fanin_nic.engine.jobs.config import (
    CONFIG_ACK_ROW,
    begin_config,
    cleared_body,
    config_token,
    forwards_config,
    full_length,
    is_root,
    proves_path,
    reset_keepalive_timers,
)
from fanin_nic.engine.jobs.lease import (
    SHARED,
    grantable_slots,
    new_job,
    next_node,
    release,
    set_buffers,
    start_lease,
    take_lease,
)
from fanin_nic.engine.jobs.missing import abort_lost, scope_below, scope_from_above, scope_from_peer, set_missing_below
from fanin_nic.engine.output import attach_payload, body_at, invite, may_invite, notice, packet
from fanin_nic.engine.records.accessors import (
    ONE,
    U64,
    ZERO,
    abort,
    bit_of,
    child_at,
    child_index,
    count,
    header_at,
    job_at,
    queue_at,
)
from fanin_nic.engine.records.tables import BUFFER_OVERHEAD, ENGINE, JOB, Counter, JobState
from fanin_nic.native.compiled import internal, internal_for
from fanin_nic.native.memory import count_bits, load_be32, lowest_bit, store_be32
from fanin_wire.abi import MAX_CHILDREN, MessageType, Route, Status
from fanin_wire.fields import CONFIG_ACK_BODY, HEADER, Opcode

ACK_SLOTS, ACK_WINDOW = CONFIG_ACK_BODY.byte_offset("slots"), CONFIG_ACK_BODY.byte_offset("window")
ACK_SIZE = CONFIG_ACK_BODY.size


@internal
def member_window(e, job):
    """Positions in flight that this device can take: half the lease, and what its receive buffer holds, with one packet
    a position from each sender. Short broadcasts bring two from above, data and RESULT: if the buffer overflows,
    packets are lost and asked for."""
    half = max(ONE, U64(job.slots) // U64(2))
    if job.route == Route.LOCAL:
        return half
    senders = U64(2) if job.route == Route.RING else max(ONE, count_bits(job.node_mask))  # a ring: partials and results
    room = U64(e.receive_segments) * U64(e.max_chunk + BUFFER_OVERHEAD) // U64(job.chunk + BUFFER_OVERHEAD)
    return max(ONE, min(half, room // senders))


@internal
def notify_pending(e, job):
    """PENDING to the ranks that wait for their JOIN, with the members missing here or above."""
    here = job.rank_mask & ~job.rank_joined
    nodes, scope = job.config_mask & ~job.node_joined, scope_below(job)
    if job.state != JobState.JOINING:
        nodes, scope = U64(job.missing), int(job.missing_kind)
    for rank in range(MAX_CHILDREN):
        if job.queue[rank] and not queue_at(e, job.queue[rank] - 1).joined:
            if here != ZERO:
                notice(e, job.queue[rank] - 1, MessageType.JOIN, Status.PENDING, 0, here)
            else:
                notice(e, job.queue[rank] - 1, MessageType.JOIN, Status.PENDING, scope, nodes)


@internal
def progress_join(e, job):
    """When all ranks and all devices below have joined, activate the job or send CONFIG."""
    if job.state != JobState.JOINING or job.rank_joined != job.rank_mask or job.node_joined != job.config_mask:
        return
    if is_root(job):
        activate(e, job, job.offered_slots, job.offered_window)
    else:
        begin_config(e, job)


@internal
def activate(e, job, slots, window):
    """Start the job, and tell the devices below and the ranks."""
    start_lease(e, job, slots, window)
    job.state = JobState.ACTIVE
    job.retries = 0
    job.missing = ZERO
    job.next_has_answered = 0
    job.heard = e.now
    job.heard_next = e.now
    job.heard_previous = e.now
    reset_keepalive_timers(e, job)
    if job.has_parent or job.config_mask or job.route == Route.RING:
        e.next_deadline = min(e.next_deadline, e.now + e.keepalive)
    below = job.config_mask
    while below:
        bit = lowest_bit(below)
        below &= below - ONE
        child = child_at(e, child_index(job, bit))
        send_config_ack(e, job, child.address, bit, U64(child.boot_id), Status.SUCCESS, child.is_full)
    if may_invite(e, job):
        invite(e, job)
    for rank in range(MAX_CHILDREN):
        if job.queue[rank] and not queue_at(e, job.queue[rank] - 1).joined:
            queue_at(e, job.queue[rank] - 1).joined = 1
            notice(e, job.queue[rank] - 1, MessageType.JOIN, Status.SUCCESS, 0, ZERO)


@internal
def set_missing(job, header):
    """Name in a CONFIG_ACK the members that have not joined: devices below, or those that the device above reported."""
    scope, missing = scope_below(job), job.config_mask & ~job.node_joined
    if job.state == JobState.CONFIGURING:
        scope, missing = int(job.missing_kind), U64(job.missing)
    if job.route == Route.RING:
        header.seg = max(scope, 1)
        header.node_bitmap = missing
    else:
        set_missing_below(header, scope, missing)


@internal_for(ENGINE, JOB, int64, int64, uint64, int64, int64)
def send_config_ack(e, job, destination, bit, token, status, is_full):
    """CONFIG_ACK with the lease, the missing members, or a refusal. token: of the CONFIG, the lower half of the boot
    id. is_full: as long as the longest packet of the job."""
    index = packet(e, job, Opcode.CONFIG_ACK, destination)
    header = header_at(e, index)
    header.source = bit
    header.status = status
    header.token = token & U64(0xFFFFFFFF)
    if status == Status.PENDING:
        set_missing(job, header)
        header.rank_bitmap = job.rank_mask & ~job.rank_joined
    body = cleared_body(e, job, CONFIG_ACK_ROW, ACK_SIZE) if is_full else body_at(e, index)
    store_be32(body + ACK_SLOTS, job.slots)
    store_be32(body + ACK_WINDOW, job.window)
    attach_payload(e, index, body, full_length(job, ACK_SIZE) if is_full else U64(ACK_SIZE))


@internal_for(ENGINE, HEADER, int64, int64, int64)
def refuse_config(e, header, destination, status, slots):
    """Refuse a job that has no record here."""
    job = job_at(e, e.jobs)  # the spare record behind the table
    job.jid = header.jid
    job.key = header.key
    job.slots = slots
    job.window = 0
    send_config_ack(e, job, destination, header.source, U64(header.token), status, 0)


@internal
def on_config(e, found, header, body, length, source):
    """Event: CONFIG from a device below. `found`: 1 + index of the job with that jid; 0: none."""
    if not config.is_valid(e, header, body, length):
        count(e, Counter.DROP_CONFIG)
        return
    if found and gives_way_to(job_at(e, found - 1), header.key):
        release(e, job_at(e, found - 1))
        found = 0
    if not found and not e.is_switch:
        refuse_config(e, header, source, Status.PENDING, 0)  # no rank of this node has joined yet
        return
    if not found:
        found = create_switch_job(e, header, body, source)
        if not found:
            return
    job = job_at(e, found - 1)
    if job.key != header.key:
        remember_refusal(job, header.key)
        refuse_config(e, header, source, Status.JID_IN_USE, 0)
    elif is_foreign_sender(e, job, header.source, source):
        count(e, Counter.DROP_SENDER)  # the sender must not learn that its key is right
        refuse_config(e, header, source, Status.JID_IN_USE, 0)
    elif job.state == JobState.ABORTED:
        send_abort(e, job, source, header.source)
    elif config.agrees(job, body):
        bind_child(e, job, body, source, length >= job.chunk)
    else:
        abort(e, job, Status.MEMBERS_MISMATCH, scope_below(job), bit_of(header.source))
        send_abort(e, job, source, header.source)


@internal
def is_foreign_sender(e, job, bit, source):
    """Whether a sender can not be a member: its bit belongs to another device, or all have joined already."""
    if job.node_joined & bit_of(bit) == ZERO:
        return job.state == JobState.ACTIVE or job.state == JobState.LEAVING
    return child_at(e, child_index(job, bit)).address != source


@internal
def create_switch_job(e, header, body, source):
    """1 + index of the record of a job that is new to this switch; 0 after a refusal."""
    if not config.is_of_tree(body):
        count(e, Counter.DROP_CONFIG)
        return 0
    if config.last_lane(body) > e.last_lane:  # packets in higher lanes would never arrive
        refuse_config(e, header, source, Status.TOO_FEW_LANES, 0)
        return 0
    if e.draining:
        refuse_config(e, header, source, Status.DRAINING, 0)
        return 0
    made = new_job(e, header.jid, header.key, source)
    if not made:
        refuse_config(e, header, source, Status.NO_RESOURCES, 0)
        return 0
    job = job_at(e, made - 1)
    offered = config.slots(body)
    config.describe_job(job, body)
    set_buffers(e, job)
    if config.chunk(body) > e.max_chunk or not take_lease(e, job, offered):
        refuse_config(e, header, source, Status.NO_RESOURCES, grantable_slots(e, job, offered))
        return 0
    job.state = JobState.JOINING
    job.offered_window = member_window(e, job)
    job.heard = e.now
    e.next_deadline = min(e.next_deadline, e.now + e.detection + ONE)
    return made


@internal
def bind_child(e, job, body, source, is_full):
    """Enter a device below as joined, perhaps again. is_full: its CONFIG is as long as the job's longest packet."""
    bit = config.bit(body)
    child = child_at(e, child_index(job, bit))
    boot_id = config.boot_id(body)
    if job.node_joined & bit_of(bit) != ZERO and child.boot_id != boot_id:
        abort_lost(e, job, scope_below(job), bit_of(bit), child.address)
        return
    if e.is_switch and source != job.owner:
        job.owner = SHARED
    child.address = source
    child.boot_id = boot_id
    child.is_full = 1 if is_full else 0
    child.heard = e.now
    if job.route == Route.RING:
        job.heard_previous = e.now  # it may repeat CONFIG while this node runs, if the path loses the answer
    job.node_joined |= bit_of(bit)
    job.offered_slots = min(job.offered_slots, config.slots(body))
    job.offered_window = min(job.offered_window, config.window(body))
    answer_child(e, job, source, bit, boot_id, child.is_full)


@internal
def answer_child(e, job, source, bit, boot_id, is_full):
    """Answer a CONFIG: the lease if the job runs, else PENDING, unless this CONFIG has made it run."""
    if job.state == JobState.ACTIVE or job.state == JobState.LEAVING:
        send_config_ack(e, job, source, bit, boot_id, Status.SUCCESS, is_full)
        return
    progress_join(e, job)
    if job.state == JobState.JOINING or job.state == JobState.CONFIGURING:
        send_config_ack(e, job, source, bit, boot_id, Status.PENDING, 0)


@internal
def on_config_ack(e, job, header, body, length):
    """Event: CONFIG_ACK of the device above or the next node."""
    if job.state != JobState.CONFIGURING:
        count(e, Counter.DROP_UNEXPECTED)
        return
    if length < ACK_SIZE:
        count(e, Counter.DROP_LENGTH)
        return
    if header.token != config_token(e):  # the answer to a CONFIG from before a restart of this device
        count(e, Counter.DROP_UNEXPECTED)
        return
    is_proved = proves_path(e, job, header)
    scope = scope_from_peer(job, header) if forwards_config(job) else scope_from_above(job, header)
    missing = U64(header.node_bitmap)
    if header.status == Status.PENDING:
        if missing == ZERO and forwards_config(job):
            missing = next_node(job)  # its own ranks
        if job.missing != missing or job.missing_kind != scope:
            job.missing = missing
            job.missing_kind = scope
            notify_pending(e, job)
    elif header.status == Status.SUCCESS and not is_proved:
        return  # the next CONFIG of full length asks again
    elif header.status == Status.SUCCESS:
        slots, window = load_be32(body + ACK_SLOTS), load_be32(body + ACK_WINDOW)
        if config.is_lease(slots) and window:
            activate(e, job, slots, window)
        else:
            count(e, Counter.DROP_CONFIG)
    else:
        job.offered_slots = load_be32(body + ACK_SLOTS)
        abort(e, job, header.status, scope, missing)

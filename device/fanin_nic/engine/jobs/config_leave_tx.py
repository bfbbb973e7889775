"""Transmission of CONFIG and LEAVE to the device above and to the next node of a ring, repeated until answered."""

from fanin_nic.engine.jobs.config_packet import CONFIG_SIZE, HOP_SIZE, write_config, write_hop, write_path
from fanin_nic.engine.jobs.missing_scope import set_missing_above, set_missing_beside
from fanin_nic.engine.jobs.path_mtu import CONFIG_ROW, begin_proof, choose_length, cleared_body
from fanin_nic.engine.output.encapsulate import attach_payload, packet
from fanin_nic.engine.records.accessors import U64, bit_of, header_at
from fanin_nic.engine.records.tables import JobState, Leave
from fanin_nic.native.compiled import internal
from fanin_wire.abi import MAX_HOPS, Route
from fanin_wire.fields import Opcode

MIN_INTERVAL = 2_000_000  # ns; doubles with each repetition
MAX_INTERVAL = 500_000_000


@internal
def forwards_config(job):
    """Whether CONFIG goes to the next node: in a ring it runs from node 0 to the last."""
    return job.route == Route.RING and job.node_index != job.node_count - 1


@internal
def is_root(job):
    """Whether the membership of a job ends at this device."""
    return not job.has_parent and not forwards_config(job)


@internal
def reset_keepalive_timers(e, job):
    job.sent_above = e.now
    job.sent_next = e.now
    job.sent_previous = e.now
    job.sent_below = e.now


@internal
def schedule_repeat(e, job):
    """Set the time of the next repetition, within a keep-alive interval: until a job runs, CONFIG is its keep-alive."""
    interval = min(min(MAX_INTERVAL, e.keepalive), MIN_INTERVAL << min(job.retries, 8))
    job.retries += 1
    job.deadline = e.now + interval
    e.next_deadline = min(e.next_deadline, job.deadline)


@internal
def config_token(e):
    """Returned by the CONFIG_ACK: the lower half of the boot id."""
    return U64(e.boot_id) & U64(0xFFFFFFFF)


@internal
def send_config(e, job):
    """CONFIG to the next node of a ring, or to the device above with the rest of the path. Its length: `path_mtu`."""
    index = packet(e, job, Opcode.CONFIG, job.next_address if forwards_config(job) else job.parent_address)
    header = header_at(e, index)
    body = cleared_body(e, job, CONFIG_ROW, CONFIG_SIZE + MAX_HOPS * HOP_SIZE)
    header.token = config_token(e)
    if forwards_config(job):
        header.source = job.node_index
        write_config(e, job, body, Route.RING, 1)
        write_hop(body + CONFIG_SIZE, job.next_address, job.node_index, bit_of(job.node_index))
        length = CONFIG_SIZE + HOP_SIZE
    else:
        header.source = job.parent_bit
        write_config(e, job, body, Route.TREE, 1 + job.hop_count)
        write_path(job, body + CONFIG_SIZE)
        length = CONFIG_SIZE + (1 + job.hop_count) * HOP_SIZE
    attach_payload(e, index, body, choose_length(job, length))
    schedule_repeat(e, job)


@internal
def begin_config(e, job):
    """All members below have joined."""
    job.state = JobState.CONFIGURING
    job.retries = 0
    job.heard = e.now
    job.heard_next = e.now
    begin_proof(e, job)
    send_config(e, job)


@internal
def begin_leave(e, job):
    """LEAVE to the device above and to the next node. The record stays until both acknowledge."""
    if job.state != JobState.ABORTED:
        job.state = JobState.LEAVING
    if job.has_parent:
        job.parent_leave = Leave.REPEATED
    if job.route == Route.RING:
        job.next_leave = Leave.REPEATED
    job.retries = 0
    job.leaving_since = e.now
    send_leaves(e, job)


@internal
def send_leaves(e, job):
    """LEAVE to the neighbours that have not acknowledged it. A status other than SUCCESS ends the job for all."""
    if job.parent_leave == Leave.REPEATED:
        header = header_at(e, packet(e, job, Opcode.LEAVE, job.parent_address))
        header.source = job.parent_bit
        if job.state == JobState.ABORTED:
            header.status = job.status
            header.rank_bitmap = job.lost_device
            set_missing_above(job, header, job.missing_kind, U64(job.missing))
    if job.next_leave == Leave.REPEATED:
        header = header_at(e, packet(e, job, Opcode.LEAVE, job.next_address))
        header.source = job.node_index
        if job.state == JobState.ABORTED:
            header.status = job.status
            header.rank_bitmap = job.lost_device
            set_missing_beside(job, header, job.missing_kind, U64(job.missing))
    schedule_repeat(e, job)


@internal
def is_leaving(job):
    return job.parent_leave == Leave.REPEATED or job.next_leave == Leave.REPEATED


@internal
def is_released_above(job):
    above = not job.has_parent or job.parent_leave == Leave.ACKNOWLEDGED
    return above and (job.route != Route.RING or job.next_leave == Leave.ACKNOWLEDGED)

"""CONFIG and LEAVE to the device above (in a ring: to the next node), each repeated until it is answered."""

from __future__ import annotations

from fanin_nic.engine.packet.encapsulate import attach_payload, body_at, packet
from fanin_nic.engine.state import U64, JobState, Leave, bit_of, header_at
from fanin_nic.native.compiled import compiled
from fanin_nic.native.memory import fill_zero, store_be32, store_be64, store_u8
from fanin_wire.fields import CONFIG_BODY, HOP_BODY, Opcode

CONFIG, LEAVE = int(Opcode.CONFIG), int(Opcode.LEAVE)
CONFIGURING, ABORTED, LEAVING = int(JobState.CONFIGURING), int(JobState.ABORTED), int(JobState.LEAVING)
REPEATED = int(Leave.REPEATED)
FIRST_INTERVAL = 20_000_000  # ns; doubles with each repetition
LAST_INTERVAL = 500_000_000
V4_MAPPED = 0xFFFF
CONFIG_SIZE, HOP_SIZE = CONFIG_BODY.size, HOP_BODY.size
BOOT_ID = CONFIG_BODY.byte_offset("boot_id")
DIGEST_HIGH, DIGEST_LOW = CONFIG_BODY.byte_offset("digest_high"), CONFIG_BODY.byte_offset("digest_low")
SLOTS, WINDOW = CONFIG_BODY.byte_offset("slots"), CONFIG_BODY.byte_offset("window")
CHUNK, ROUTE, HOPS = (CONFIG_BODY.byte_offset(name) for name in ("chunk", "route", "hops"))
HOP_ADDRESS, HOP_MASK, HOP_BIT = (HOP_BODY.byte_offset(name) for name in ("address", "mask", "bit"))


@compiled
def repeat_later(e, job):
    """Set the time of the next repetition."""
    interval = min(LAST_INTERVAL, FIRST_INTERVAL << min(job.retries, 8))
    job.retries += 1
    job.deadline = e.now + interval
    e.next_deadline = min(e.next_deadline, job.deadline)


@compiled
def write_hop(address, device, bit, mask):
    """One entry of the path at `address`: an IPv4 address as a v4-mapped IPv6 one, bit and mask."""
    fill_zero(address, HOP_SIZE)
    store_be32(address + HOP_ADDRESS + 8, V4_MAPPED)
    store_be32(address + HOP_ADDRESS + 12, device)
    store_be64(address + HOP_MASK, mask)
    store_u8(address + HOP_BIT, bit)


@compiled
def send_config(e, job):
    """CONFIG to the device above, with the rest of the path for it to go on with."""
    index = packet(e, job, CONFIG, job.parent_address)
    header_at(e, index).source = job.parent_bit
    body = body_at(e, index)
    fill_zero(body, CONFIG_SIZE)
    store_be64(body + BOOT_ID, e.boot_id)
    store_be64(body + DIGEST_HIGH, job.digest_high)
    store_be64(body + DIGEST_LOW, job.digest_low)
    store_be32(body + SLOTS, job.offered_slots)
    store_be32(body + WINDOW, job.offered_window)
    store_be32(body + CHUNK, job.chunk)
    store_u8(body + ROUTE, job.route)
    store_u8(body + HOPS, 1 + job.hop_count)
    write_hop(body + CONFIG_SIZE, job.parent_address, job.parent_bit, job.parent_mask)
    for level in range(job.hop_count):
        place = body + CONFIG_SIZE + (level + 1) * HOP_SIZE
        write_hop(place, job.hop_address[level], job.hop_bit[level], job.hop_mask[level])
    attach_payload(e, index, body, CONFIG_SIZE + (1 + job.hop_count) * HOP_SIZE)
    repeat_later(e, job)


@compiled
def begin_config(e, job):
    """All below have joined: ask the device above."""
    job.state = CONFIGURING
    job.retries = 0
    job.heard = e.now
    send_config(e, job)


@compiled
def missing_nodes(job):
    """The missing of an ended job as nodes; to the others, ranks of this node are this node."""
    return U64(job.missing) if job.missing_kind else bit_of(job.parent_bit)


@compiled
def send_leave(e, job):
    """LEAVE to the device above; a status other than SUCCESS ends the job for all."""
    header = header_at(e, packet(e, job, LEAVE, job.parent_address))
    header.source = job.parent_bit
    if job.state == ABORTED:
        header.status = job.status
        header.node_bitmap = missing_nodes(job)
    repeat_later(e, job)


@compiled
def begin_leave(e, job):
    """Leave the job at the device above; the record stays until that is acknowledged."""
    if job.state != ABORTED:
        job.state = LEAVING
    job.leave = REPEATED
    job.retries = 0
    send_leave(e, job)

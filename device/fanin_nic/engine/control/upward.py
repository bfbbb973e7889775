"""CONFIG and LEAVE to the device above and to the next node of a ring, each repeated until it is answered."""

from __future__ import annotations

from fanin_nic.engine.control.blame import name_above, name_beside
from fanin_nic.engine.packet.encapsulate import attach_payload, body_at, packet
from fanin_nic.engine.state import U64, bit_of, header_at
from fanin_nic.engine.tables import JobState, Leave
from fanin_nic.native.compiled import internal
from fanin_nic.native.memory import fill_zero, store_be32, store_be64, store_u8
from fanin_wire.abi import JobFlag, Route
from fanin_wire.fields import CONFIG_BODY, HOP_BODY, Opcode

CONFIG, LEAVE = int(Opcode.CONFIG), int(Opcode.LEAVE)
CONFIGURING, ABORTED, LEAVING = int(JobState.CONFIGURING), int(JobState.ABORTED), int(JobState.LEAVING)
REPEATED, ACKNOWLEDGED = int(Leave.REPEATED), int(Leave.ACKNOWLEDGED)
TREE, RING = int(Route.TREE), int(Route.RING)
SHARED_FLAGS = ~int(JobFlag.FIXED_START)
FIRST_INTERVAL = 20_000_000  # ns; doubles with each repetition
LAST_INTERVAL = 500_000_000
V4_MAPPED = 0xFFFF
CONFIG_SIZE, HOP_SIZE = CONFIG_BODY.size, HOP_BODY.size
BOOT_ID = CONFIG_BODY.byte_offset("boot_id")
DIGEST_HIGH, DIGEST_LOW = CONFIG_BODY.byte_offset("digest_high"), CONFIG_BODY.byte_offset("digest_low")
SLOTS, WINDOW = CONFIG_BODY.byte_offset("slots"), CONFIG_BODY.byte_offset("window")
CHUNK, ROUTE, HOPS = (CONFIG_BODY.byte_offset(name) for name in ("chunk", "route", "hops"))
LAST_LANE, FLAGS = CONFIG_BODY.byte_offset("last_lane"), CONFIG_BODY.byte_offset("flags")
HOP_ADDRESS, HOP_MASK, HOP_BIT = (HOP_BODY.byte_offset(name) for name in ("address", "mask", "bit"))


@internal
def passes_on(job):
    """Whether CONFIG goes to the next node: in a ring it runs from node 0 to the last."""
    return job.route == RING and job.node_index != job.node_count - 1


@internal
def is_top(job):
    """Whether the membership of a job ends here."""
    return not job.has_parent and not passes_on(job)


@internal
def note_spoken(e, job):
    """Keep-alives to the neighbours are counted from now on."""
    job.said_above = e.now
    job.said_next = e.now
    job.said_previous = e.now
    job.said_below = e.now


@internal
def repeat_later(e, job):
    """Set the time of the next repetition; until a job runs, its CONFIG is what shows that its sender lives."""
    interval = min(min(LAST_INTERVAL, e.keepalive), FIRST_INTERVAL << min(job.retries, 8))
    job.retries += 1
    job.deadline = e.now + interval
    e.next_deadline = min(e.next_deadline, job.deadline)


@internal
def write_hop(address, device, bit, mask):
    """One entry of the path at `address`: an IPv4 address as a v4-mapped IPv6 one, bit and mask."""
    fill_zero(address, HOP_SIZE)
    store_be32(address + HOP_ADDRESS + 8, V4_MAPPED)
    store_be32(address + HOP_ADDRESS + 12, device)
    store_be64(address + HOP_MASK, mask)
    store_u8(address + HOP_BIT, bit)


@internal
def write_config(e, job, body, route, hops):
    """The body of a CONFIG without its path."""
    fill_zero(body, CONFIG_SIZE)
    store_be64(body + BOOT_ID, e.boot_id)
    store_be64(body + DIGEST_HIGH, job.digest_high)
    store_be64(body + DIGEST_LOW, job.digest_low)
    store_be32(body + SLOTS, job.offered_slots)
    store_be32(body + WINDOW, job.offered_window)
    store_be32(body + CHUNK, job.chunk)
    store_u8(body + ROUTE, route)
    store_u8(body + HOPS, hops)
    store_u8(body + LAST_LANE, job.last_lane)
    store_u8(body + FLAGS, job.flags & SHARED_FLAGS)


@internal
def send_config(e, job):
    """CONFIG to the next node of a ring, or to the device above with the rest of the path for it to go on with."""
    index = packet(e, job, CONFIG, job.next_address if passes_on(job) else job.parent_address)
    header = header_at(e, index)
    body = body_at(e, index)
    if passes_on(job):
        header.source = job.node_index
        write_config(e, job, body, RING, 1)
        write_hop(body + CONFIG_SIZE, job.next_address, job.node_index, bit_of(job.node_index))
        attach_payload(e, index, body, CONFIG_SIZE + HOP_SIZE)
    else:
        header.source = job.parent_bit
        write_config(e, job, body, TREE, 1 + job.hop_count)
        write_path(job, body + CONFIG_SIZE)
        attach_payload(e, index, body, CONFIG_SIZE + (1 + job.hop_count) * HOP_SIZE)
    repeat_later(e, job)


@internal
def write_path(job, place):
    """The device above and those above it."""
    write_hop(place, job.parent_address, job.parent_bit, job.parent_mask)
    for level in range(job.hop_count):
        place += HOP_SIZE
        write_hop(place, job.hop_address[level], job.hop_bit[level], job.hop_mask[level])


@internal
def begin_config(e, job):
    """All below have joined: ask the device above."""
    job.state = CONFIGURING
    job.retries = 0
    job.heard = e.now
    job.heard_next = e.now
    send_config(e, job)


@internal
def begin_leave(e, job):
    """Leave the job at the device above and at the next node; the record stays until that is acknowledged."""
    if job.state != ABORTED:
        job.state = LEAVING
    if job.has_parent:
        job.parent_leave = REPEATED
    if job.route == RING:
        job.next_leave = REPEATED
    job.retries = 0
    job.leaving_since = e.now
    send_leaves(e, job)


@internal
def send_leaves(e, job):
    """LEAVE wherever it is not acknowledged; a status other than SUCCESS ends the job for all."""
    if job.parent_leave == REPEATED:
        header = header_at(e, packet(e, job, LEAVE, job.parent_address))
        header.source = job.parent_bit
        if job.state == ABORTED:
            header.status = job.status
            name_above(job, header, job.missing_kind, U64(job.missing))
    if job.next_leave == REPEATED:
        header = header_at(e, packet(e, job, LEAVE, job.next_address))
        header.source = job.node_index
        if job.state == ABORTED:
            header.status = job.status
            name_beside(job, header, job.missing_kind, U64(job.missing))
    repeat_later(e, job)


@internal
def is_leaving(job):
    """Whether a LEAVE is repeated."""
    return job.parent_leave == REPEATED or job.next_leave == REPEATED


@internal
def has_left(job):
    """Whether whoever is above has let this device go."""
    above = not job.has_parent or job.parent_leave == ACKNOWLEDGED
    return above and (job.route != RING or job.next_leave == ACKNOWLEDGED)

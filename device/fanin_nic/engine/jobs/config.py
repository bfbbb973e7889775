"""CONFIG and LEAVE to the device above and to the next node, repeated until answered, and the body of a CONFIG.

CONFIG, and the CONFIG_ACK(SUCCESS) that answers it, are padded to the length of the job's longest packet. So a job
becomes active only over paths that carry its packets both ways. A path that loses only long packets looks like a device
that is down. To tell them apart, every other CONFIG is short once a few long ones are unanswered. If only short ones
are answered, eight in a row and for the detection time, the path loses long packets: loss of packets of any length
looks so in at most one row of answers in 256. Record 0111: why, and what was rejected.
"""

from fanin_nic.engine.jobs.lease import next_node
from fanin_nic.engine.jobs.missing import abort_naming, scope_above, scope_below, set_missing_above, set_missing_beside
from fanin_nic.engine.output import attach_payload, full_body_at, packet
from fanin_nic.engine.records.accessors import U64, ZERO, bit_of, header_at
from fanin_nic.engine.records.tables import JobState, Leave
from fanin_nic.native.compiled import internal
from fanin_nic.native.memory import fill_zero, load_be32, load_be64, load_u8, store_be32, store_be64, store_u8
from fanin_wire.abi import MAX_CHILDREN, MAX_HOPS, JobFlag, Route, Status
from fanin_wire.fields import CONFIG_BODY, HOP_BODY, Opcode

CONFIG_ROW, CONFIG_ACK_ROW = 0, 1  # of a job, in the table of full bodies
FULL_CONFIGS = 3  # unanswered, before short ones are tried
SHORT_ANSWERS = 8  # in a row, as the sign of a path that loses long packets
MIN_INTERVAL = 2_000_000  # ns; doubles with each repetition
MAX_INTERVAL = 500_000_000
KNOWN_FLAGS = JobFlag.WIDE | JobFlag.REPRODUCIBLE_RUN | JobFlag.REPRODUCIBLE_SHAPE
SHARED_FLAGS = ~JobFlag.FIXED_START
V4_MAPPED = 0xFFFF
CONFIG_SIZE, HOP_SIZE = CONFIG_BODY.size, HOP_BODY.size
BOOT_ID = CONFIG_BODY.byte_offset("boot_id")
DIGEST_HIGH, DIGEST_LOW = CONFIG_BODY.byte_offset("digest_high"), CONFIG_BODY.byte_offset("digest_low")
SLOTS, WINDOW = CONFIG_BODY.byte_offset("slots"), CONFIG_BODY.byte_offset("window")
CHUNK, ROUTE, HOPS = (CONFIG_BODY.byte_offset(name) for name in ("chunk", "route", "hops"))
LAST_LANE, FLAGS = CONFIG_BODY.byte_offset("last_lane"), CONFIG_BODY.byte_offset("flags")
HOP_ADDRESS, HOP_MASK, HOP_BIT = (HOP_BODY.byte_offset(name) for name in ("address", "mask", "bit"))


# CONFIG to the device above or to the next node


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
def send_config(e, job):
    """CONFIG to the next node of a ring, or to the device above with the rest of the path."""
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
def config_token(e):
    """Returned by the CONFIG_ACK: the lower half of the boot id."""
    return U64(e.boot_id) & U64(0xFFFFFFFF)


@internal
def forwards_config(job):
    """Whether CONFIG goes to the next node: in a ring it runs from node 0 to the last."""
    return job.route == Route.RING and job.node_index != job.node_count - 1


@internal
def is_root(job):
    """Whether the membership of a job ends at this device."""
    return not job.has_parent and not forwards_config(job)


@internal
def schedule_repeat(e, job):
    """Set the time of the next repetition, within a keep-alive interval: until a job runs, CONFIG is its keep-alive."""
    interval = min(min(MAX_INTERVAL, e.keepalive), MIN_INTERVAL << min(job.retries, 8))
    job.retries += 1
    job.deadline = e.now + interval
    e.next_deadline = min(e.next_deadline, job.deadline)


@internal
def reset_keepalive_timers(e, job):
    job.sent_above = e.now
    job.sent_next = e.now
    job.sent_previous = e.now
    job.sent_below = e.now


@internal
def write_config(e, job, body, route, hops):
    """The body without the path."""
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
def write_path(job, place):
    """The device above and those above it."""
    write_hop(place, job.parent_address, job.parent_bit, job.parent_mask)
    for level in range(job.hop_count):
        place += HOP_SIZE
        write_hop(place, job.hop_address[level], job.hop_bit[level], job.hop_mask[level])


@internal
def write_hop(address, device, bit, mask):
    """An entry of the path at `address`, IPv4 as v4-mapped IPv6."""
    fill_zero(address, HOP_SIZE)
    store_be32(address + HOP_ADDRESS + 8, V4_MAPPED)
    store_be32(address + HOP_ADDRESS + 12, device)
    store_be64(address + HOP_MASK, mask)
    store_u8(address + HOP_BIT, bit)


# The body of a CONFIG from below


@internal
def is_valid(e, header, body, length):
    """Whether a CONFIG is complete, for this device, and consistent."""
    if length < CONFIG_SIZE + HOP_SIZE:
        return False
    hops = load_u8(body + HOPS)
    if hops < 1 or hops > MAX_HOPS or length < CONFIG_SIZE + hops * HOP_SIZE:
        return False
    for level in range(hops):
        if hop_bit(body, level) >= MAX_CHILDREN or hop_mask(body, level) & bit_of(hop_bit(body, level)) == ZERO:
            return False
        if not is_ipv4(body, level):
            return False
    if not Route.TREE <= load_u8(body + ROUTE) <= Route.RING:
        return False
    if hop_bit(body, 0) != header.source or not is_lease(slots(body)) or window(body) == 0 or chunk(body) == 0:
        return False
    return hop_address(body, 0) == e.address and load_u8(body + FLAGS) & ~KNOWN_FLAGS == 0


@internal
def is_lease(count):
    """Whether `count` slots can be a lease: a power of two, with room for a window and what it replaces."""
    return count >= 2 and count & (count - 1) == 0


@internal
def agrees(job, body):
    """Whether a CONFIG describes the job as known here."""
    return (
        load_be64(body + DIGEST_HIGH) == job.digest_high
        and load_be64(body + DIGEST_LOW) == job.digest_low
        and chunk(body) == job.chunk
        and load_u8(body + ROUTE) == job.route
        and load_u8(body + FLAGS) == job.flags & SHARED_FLAGS
        and last_lane(body) == job.last_lane
        and hop_mask(body, 0) == job.config_mask
    )


@internal
def describe_job(job, body):
    """Describe a new job by its first CONFIG."""
    job.route = load_u8(body + ROUTE)
    job.flags = load_u8(body + FLAGS)
    job.last_lane = last_lane(body)
    job.chunk = chunk(body)
    job.digest_high = load_be64(body + DIGEST_HIGH)
    job.digest_low = load_be64(body + DIGEST_LOW)
    job.node_mask = hop_mask(body, 0)
    job.config_mask = job.node_mask
    hops = load_u8(body + HOPS)
    if hops > 1:
        job.has_parent = 1
        job.parent_address = hop_address(body, 1)
        job.parent_bit = hop_bit(body, 1)
        job.parent_mask = hop_mask(body, 1)
        job.hop_count = hops - 2
        for level in range(job.hop_count):
            job.hop_address[level] = hop_address(body, level + 2)
            job.hop_bit[level] = hop_bit(body, level + 2)
            job.hop_mask[level] = hop_mask(body, level + 2)


@internal
def boot_id(body):
    return load_be64(body + BOOT_ID)


@internal
def slots(body):
    return load_be32(body + SLOTS)


@internal
def window(body):
    """Positions in flight that the sender can take."""
    return load_be32(body + WINDOW)


@internal
def chunk(body):
    return load_be32(body + CHUNK)


@internal
def last_lane(body):
    return load_u8(body + LAST_LANE)


@internal
def is_of_tree(body):
    """Whether the sender is a child, not a neighbour in a ring."""
    return load_u8(body + ROUTE) == Route.TREE


@internal
def bit(body):
    """The sender's bit at the receiver."""
    return hop_bit(body, 0)


@internal
def hop_bit(body, level):
    """Bit, at a device of the path, of the device below it."""
    return load_u8(hop(body, level) + HOP_BIT)


@internal
def hop_mask(body, level):
    """The children that a device of the path waits for."""
    return load_be64(hop(body, level) + HOP_MASK)


@internal
def hop_address(body, level):
    return load_be32(hop(body, level) + HOP_ADDRESS + 12)


@internal
def is_ipv4(body, level):
    """Whether the address of a device of the path is v4-mapped."""
    place = hop(body, level) + HOP_ADDRESS
    return load_be64(place) == ZERO and load_be32(place + 8) == V4_MAPPED


@internal
def hop(body, level):
    """Address of an entry of the path."""
    return body + CONFIG_SIZE + level * HOP_SIZE


# The proof that the path carries long packets


@internal
def begin_proof(e, job):
    """Begin to ask the device above, or the next node."""
    job.unanswered_configs = 0
    job.config_is_short = 0
    job.short_answers = 0
    job.path_proved_at = e.now


@internal
def choose_length(job, length):
    """Bytes of the body of the next CONFIG; `length`: of its fields."""
    is_longest = U64(length) >= U64(job.chunk)  # with short segments no padding is needed
    tries_short = job.unanswered_configs >= FULL_CONFIGS and not job.config_is_short and not is_longest
    job.config_is_short = 1 if tries_short else 0
    if tries_short:
        return U64(length)
    job.unanswered_configs = min(job.unanswered_configs + 1, FULL_CONFIGS)
    return full_length(job, length)


@internal
def full_length(job, length):
    """Bytes of the body of a control packet as long as the job's longest packet."""
    return max(U64(length), U64(job.chunk))


@internal
def cleared_body(e, job, row, length):
    """Address of zeroed memory for a full body."""
    body = full_body_at(e, job, row)
    fill_zero(body, full_length(job, length))
    return body


@internal
def proves_path(e, job, header):
    """Whether the answer to a CONFIG proves the path. A refusal needs no proof. A device without full lengths answers
    with a short CONFIG_ACK, which proves one direction."""
    is_short = job.config_is_short and U64(header.length) < U64(job.chunk)
    if is_short and (header.status == Status.PENDING or header.status == Status.SUCCESS):
        if not job.short_answers:
            job.path_proved_at = e.now
        job.short_answers = min(job.short_answers + 1, SHORT_ANSWERS)
        return False
    job.path_proved_at = e.now
    job.unanswered_configs = 0
    job.short_answers = 0
    return True


@internal
def loses_long_packets(e, job):
    """Whether only short CONFIGs were answered, often and for the detection time."""
    return job.short_answers >= SHORT_ANSWERS and e.now - job.path_proved_at > e.detection


@internal
def abort_path(e, job, is_next):
    """The path to the next node, or to the device above, loses long packets: end the job and name both ends."""
    if is_next:
        ends = bit_of(job.node_index) | next_node(job)
        abort_naming(e, job, Status.PATH_MTU, scope_below(job), ends, job.next_address)
    else:
        abort_naming(e, job, Status.PATH_MTU, scope_above(job), bit_of(job.parent_bit), job.parent_address)


# LEAVE


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

"""The body of a CONFIG packet: written, checked and read in place."""

from fanin_nic.engine.records.accessors import ZERO, bit_of
from fanin_nic.engine.records.tables import MAX_CHILDREN
from fanin_nic.native.compiled import internal
from fanin_nic.native.memory import fill_zero, load_be32, load_be64, load_u8, store_be32, store_be64, store_u8
from fanin_wire.abi import MAX_HOPS, JobFlag, Route
from fanin_wire.fields import CONFIG_BODY, HOP_BODY

SHARED_FLAGS = ~int(JobFlag.FIXED_START)
V4_MAPPED = 0xFFFF
CONFIG_SIZE, HOP_SIZE = CONFIG_BODY.size, HOP_BODY.size
BOOT_ID = CONFIG_BODY.byte_offset("boot_id")
DIGEST_HIGH, DIGEST_LOW = CONFIG_BODY.byte_offset("digest_high"), CONFIG_BODY.byte_offset("digest_low")
SLOTS, WINDOW = CONFIG_BODY.byte_offset("slots"), CONFIG_BODY.byte_offset("window")
CHUNK, ROUTE, HOPS = (CONFIG_BODY.byte_offset(name) for name in ("chunk", "route", "hops"))
LAST_LANE, FLAGS = CONFIG_BODY.byte_offset("last_lane"), CONFIG_BODY.byte_offset("flags")
HOP_ADDRESS, HOP_MASK, HOP_BIT = (HOP_BODY.byte_offset(name) for name in ("address", "mask", "bit"))
KNOWN_FLAGS = int(JobFlag.WIDE | JobFlag.REPRODUCIBLE_RUN | JobFlag.REPRODUCIBLE_SHAPE)


@internal
def word(body, offset):
    return load_be32(body + offset)


@internal
def hop(body, level):
    """Address of an entry of the path."""
    return body + CONFIG_SIZE + level * HOP_SIZE


@internal
def hop_address(body, level):
    return load_be32(hop(body, level) + HOP_ADDRESS + 12)


@internal
def is_ipv4(body, level):
    """Whether the address of a device of the path is v4-mapped."""
    place = hop(body, level) + HOP_ADDRESS
    return load_be64(place) == ZERO and load_be32(place + 8) == V4_MAPPED


@internal
def hop_mask(body, level):
    """The children that a device of the path waits for."""
    return load_be64(hop(body, level) + HOP_MASK)


@internal
def hop_bit(body, level):
    """Bit, at a device of the path, of the device below it."""
    return load_u8(hop(body, level) + HOP_BIT)


@internal
def bit(body):
    """The sender's bit at the receiver."""
    return hop_bit(body, 0)


@internal
def boot_id(body):
    return load_be64(body + BOOT_ID)


@internal
def slots(body):
    return word(body, SLOTS)


@internal
def window(body):
    """Positions in flight that the sender can take."""
    return word(body, WINDOW)


@internal
def chunk(body):
    return word(body, CHUNK)


@internal
def last_lane(body):
    return load_u8(body + LAST_LANE)


@internal
def is_of_tree(body):
    """Whether the sender is a child, not a neighbour in a ring."""
    return load_u8(body + ROUTE) == Route.TREE


@internal
def is_lease(count):
    """Whether `count` slots can be a lease: a power of two, with room for a window and what it replaces."""
    return count >= 2 and count & (count - 1) == 0


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
def write_hop(address, device, bit, mask):
    """An entry of the path at `address`, IPv4 as v4-mapped IPv6."""
    fill_zero(address, HOP_SIZE)
    store_be32(address + HOP_ADDRESS + 8, V4_MAPPED)
    store_be32(address + HOP_ADDRESS + 12, device)
    store_be64(address + HOP_MASK, mask)
    store_u8(address + HOP_BIT, bit)


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

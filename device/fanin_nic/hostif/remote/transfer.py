"""Transfers with a client over RDMA, in compiled code: data by READ, results by WRITE, completions by WRITE with
immediate data.

Results are posted before their completion, on one queue pair. The client takes a completion after its message, so all
that was written before is in its memory then (record 0108).
"""

from numba import int64, uint32, uint64

from fanin_nic.engine.records.accessors import action_at
from fanin_nic.engine.records.actions import ACTION, READ_BYTES, ActionKind
from fanin_nic.hostif.remote.queue_pair import (
    ACTION_BYTES,
    HAS_READ,
    KIND,
    MAX_WAITING_READS,
    MAX_WRITE,
    READ,
    REMOTE_REGION,
    WRITE,
    WRITE_BYTES,
    WRITE_WITH_IMMEDIATE,
    WRITTEN,
    poll_or_sleep,
    post,
    remote_at,
)
from fanin_nic.hostif.rings import CQ_DEPTH, CQE_BYTES, ENTRIES, PRODUCER
from fanin_nic.native.compiled import compiled
from fanin_nic.native.memory import address_of, copy, load_u32, lowest_bit, record_at, store_u32
from fanin_wire import abi
from fanin_wire.abi import Access, Status

LOOK_AHEAD = 512  # actions
REGION_SIZE, ACTION_SIZE = uint64(REMOTE_REGION.itemsize), uint64(ACTION_BYTES)
ROOM = uint64(WRITE_BYTES)
LINE = uint64(64)
ONE = uint64(1)
NOWHERE = -1
MARKER = uint32(abi.MARKER)

region_at = record_at(REMOTE_REGION)
kept_at = record_at(ACTION)


@compiled
def find(remote, address, length, access):
    """The row of the region with these bytes and this right; -1: none."""
    for row in range(remote.region_count):
        region = region_at(remote.regions + uint64(row) * REGION_SIZE)
        inside = address >= region.start and uint64(length) <= region.length
        if inside and address - region.start <= region.length - uint64(length) and region.access & access:
            return int64(row)
    return int64(NOWHERE)


@compiled
def begin_read(remote, action):
    """Begin a DMA_READ. PENDING: `take_read` will return it; else the reason why not."""
    if remote.broken:
        return Status.PEER_LOST
    if find(remote, action.remote, action.length, Access.READ) < 0:
        return Status.LOCAL_PROTECTION_ERROR
    if remote.free_reads:
        return post_read(remote, action)
    if uint32(remote.waiting_tail - remote.waiting_head) >= MAX_WAITING_READS:
        return Status.LOCAL_PROTECTION_ERROR
    place = remote.waiting + uint64(remote.waiting_tail % MAX_WAITING_READS) * ACTION_SIZE
    copy(place, address_of(action), ACTION_SIZE)
    remote.waiting_tail += uint32(1)
    return Status.PENDING


@compiled
def post_read(remote, action):
    """Post a READ into a free slot; returns as `begin_read`."""
    row = find(remote, action.remote, action.length, Access.READ)
    if row < 0:  # the client has taken the memory back
        return Status.LOCAL_PROTECTION_ERROR
    region = region_at(remote.regions + uint64(row) * REGION_SIZE)
    slot = lowest_bit(remote.free_reads)
    copy(remote.reads + slot * ACTION_SIZE, address_of(action), ACTION_SIZE)
    remote.free_reads &= ~(ONE << slot)
    number = HAS_READ << KIND | slot
    target = staging_of(remote, slot)
    key = remote.staging_key
    if not post(remote, READ, number, target, uint64(action.length), key, action.remote, region.key, uint32(0)):
        return Status.PEER_LOST
    return Status.PENDING


@compiled
def staging_of(remote, slot):
    """Address of a slot's data."""
    return remote.read_staging + slot * uint64(READ_BYTES)


@compiled
def take_read(remote):
    """The slot of a READ whose data came, in use until `free_slot`; NOWHERE: none."""
    if not remote.done_reads:
        return int64(NOWHERE)
    slot = lowest_bit(remote.done_reads)
    remote.done_reads &= ~(ONE << slot)
    return int64(slot)


@compiled
def free_slot(remote, slot):
    """A slot's data have been used."""
    remote.free_reads |= ONE << uint64(slot)


@compiled
def reserve(remote):
    """Wait for room in the staging memory for one WRITE; returns the bytes skipped at its end; -1: broken."""
    place = remote.written % ROOM
    skipped = ROOM - place if ROOM - place < uint64(MAX_WRITE) else uint64(0)
    until = uint64(0)
    while not remote.broken and remote.written - remote.freed + skipped + uint64(MAX_WRITE) > ROOM:
        until = poll_or_sleep(remote, until)
    return int64(NOWHERE) if remote.broken else int64(skipped)


@compiled
def write(remote, e, index, end):
    """Write a result to the client, with the actions of the queue before `end` that continue it, which are then done.
    False: the client has no such memory."""
    first = action_at(e, index)
    row = find(remote, first.remote, first.length, Access.WRITE)
    if row < 0:
        return False
    region = region_at(remote.regions + uint64(row) * REGION_SIZE)
    skipped = reserve(remote)
    if skipped < 0:
        return True  # no client is left
    target = remote.write_staging + (remote.written + uint64(skipped)) % ROOM
    length = gather(e, index, end, target, region.start + region.length)
    used = uint64(skipped) + (length + LINE - ONE) // LINE * LINE
    remote.written += used
    key = remote.staging_key
    post(remote, WRITE, WRITTEN << KIND | used, target, length, key, first.remote, region.key, uint32(0))
    return True


@compiled
def gather(e, index, end, target, limit):
    """Copy the data of an action, and of those that continue it, to `target`; returns their bytes."""
    first, length = action_at(e, index), uint64(0)
    for other in range(index, min(end, index + uint64(LOOK_AHEAD))):
        action = action_at(e, other)
        if action.kind != ActionKind.DMA_WRITE or action.queue != first.queue or action.remote != first.remote + length:
            continue
        if action.mid != first.mid:  # a failed piece must fail its own request only
            continue
        if length and length + uint64(action.length) > uint64(MAX_WRITE):
            break
        if length and first.remote + length + uint64(action.length) > limit:
            break
        copy(target + length, action.payload, uint64(action.length))
        length += uint64(action.length)
        action.kind = ActionKind.NONE
    return length


@compiled
def send_completions(remote):
    """Send on what the completion rings hold, each run of completions as one message; returns how many messages."""
    messages = 0
    for number in range(remote.cq_end):
        offset = uint64(remote.cq_offset) + uint64(number) * uint64(remote.cq_stride)
        ring, place = remote.region + offset, remote.sent + uint64(4) * uint64(number)
        producer, sent = load_u32(ring + PRODUCER), load_u32(place)
        if uint32(producer - sent) > CQ_DEPTH:  # the client has written there
            sent = producer
        while sent != producer and not remote.broken:
            entry = uint32(sent % CQ_DEPTH)
            count = min(uint32(producer - sent), uint32(CQ_DEPTH - entry))
            start = offset + ENTRIES + uint64(entry) * CQE_BYTES
            length, immediate = uint64(count) * CQE_BYTES, uint32(number) << uint32(16) | uint32(count)
            local, target = remote.region + start, remote.host_region + start
            post(
                remote, WRITE_WITH_IMMEDIATE, uint64(0), local, length, remote.region_key, target, remote.host_key,
                immediate,
            )  # fmt: skip
            sent = uint32(sent + count)
            messages += 1
        store_u32(place, sent)
    return messages


@compiled
def post_marker(address):
    """An empty message behind all results and completions so far: a client that has it has them."""
    remote = remote_at(uint64(address))
    send_completions(remote)
    post(
        remote, WRITE_WITH_IMMEDIATE, uint64(0), uint64(0), uint64(0), uint32(0), remote.host_region, remote.host_key,
        MARKER,
    )  # fmt: skip


@compiled
def post_waiting(remote):
    """Post waiting READs, oldest first, while slots are free. Returns the address of the first that can not be posted,
    and why; the caller then calls again for those behind it. 0: all were posted."""
    while remote.free_reads and remote.waiting_head != remote.waiting_tail:
        place = remote.waiting + uint64(remote.waiting_head % MAX_WAITING_READS) * ACTION_SIZE
        remote.waiting_head += uint32(1)
        status = post_read(remote, kept_at(place))
        if status != Status.PENDING:
            return place, int64(status)
    return uint64(0), int64(Status.PENDING)

"""Posting: a work request is checked and takes its positions in the stream of the job (steps S3 and S401).

A QUERY is answered at once, ahead of completions of requests (step S6).
"""

from fanin_nic.engine.jobs.lease import all_nodes
from fanin_nic.engine.output import append, complete_request, flush, retire
from fanin_nic.engine.packets.tree import probe_above
from fanin_nic.engine.records.accessors import (
    INLINE_DATA,
    ONE,
    U64,
    ZERO,
    abort,
    action_at,
    address_place,
    address_record,
    blocks_of,
    bytes_of,
    count,
    distance,
    is_power_of_two,
    job_at,
    list_distance,
    queue_at,
    quotient_up,
    range_bytes,
    region_at,
    request_at,
    request_index,
    segments_of,
    slot_at,
    slot_index,
    wqe_at,
)
from fanin_nic.engine.records.actions import ActionKind
from fanin_nic.engine.records.tables import REQUEST, Counter, JobState
from fanin_nic.engine.records.trace import trace_run
from fanin_nic.engine.segments.rto import awaits_answer, back_off, first_begun_position, missing_for_position
from fanin_nic.engine.slots import is_supported, itemsize, may_send_in_place, segment_bytes
from fanin_nic.native.compiled import internal
from fanin_nic.native.memory import address_of, copy, fill_zero, lowest_bit
from fanin_wire import abi
from fanin_wire.abi import MAX_CHILDREN, Access, ContributorClass, Status, WqeFlag, WqeOpcode
from fanin_wire.tap import Step

MAPPED = 0
KNOWN_FLAGS = WqeFlag.SIGNALED | WqeFlag.ADDRESS_LIST | WqeFlag.INLINE | WqeFlag.FENCE | WqeFlag.LONG
ADDRESS = U64(abi.WQE.fields["address"][1])  # type: ignore[index]
ADDRESS_SIZE = U64(abi.ADDRESS.itemsize)
SOURCE = U64(abi.ADDRESS.fields["source"][1])  # type: ignore[index]
REQUEST_SIZE = U64(REQUEST.itemsize)
MILLISECOND = U64(1_000_000)
LONG_BYTES = U64(abi.LONG_BYTES)
MIN_CHUNK, MAX_INLINE = abi.MIN_WQE_CHUNK, abi.MAX_INLINE
MAX_SEGMENTS = U64(0x3FFFFFFF)  # of one message: far from the wrap of positions


@internal
def can_post(e, queue_index):
    """Whether a queue has room for one more request."""
    queue = queue_at(e, queue_index)
    return queue.active and (U64(queue.tail - queue.head) & U64(0xFFFFFFFF)) < U64(e.requests)


@internal
def post(e, queue_index, wqe_address):
    """Event: a WQE, copied from the client's ring to `wqe_address`, after `can_post`."""
    queue = queue_at(e, queue_index)
    wqe = wqe_at(wqe_address)
    if wqe.opcode == WqeOpcode.QUERY:
        answer_query(e, queue_index, wqe)
        return
    index = request_index(e, queue_index, queue.tail)
    request = request_at(e, index)
    fill_zero(address_of(request), REQUEST_SIZE)
    request.list = list_distance(e, index)
    request.wr_id = wqe.wr_id
    request.opcode = wqe.opcode
    request.signaled = wqe.flags & WqeFlag.SIGNALED
    request.mid = wqe.mid
    count(e, Counter.REQUESTS)
    if wqe.opcode != WqeOpcode.COLLECTIVE:  # it takes no position, so only it is refused, and the job goes on
        count(e, Counter.NOT_OFFLOADED)
        complete_request(e, queue_index, request, Status.NOT_SUPPORTED, 0, ZERO)
        return
    if not queue.job or job_at(e, queue.job - 1).state < JobState.ACTIVE:
        complete_request(e, queue_index, request, Status.NOT_CONFIGURED, 0, ZERO)
        return
    job = job_at(e, queue.job - 1)
    queue.tail += 1
    if job.state != JobState.ACTIVE:
        request.count = ONE  # never done: `drain` completes it in its turn, with the status of the job
        return
    status = check_request(e, job, queue, wqe)
    if status:
        if status == Status.NOT_SUPPORTED:
            count(e, Counter.NOT_OFFLOADED)
        abort(e, job, status, 0, queue.rank_bitmap)
        return
    fill_request(e, job, queue, wqe, request)
    who = lowest_bit(U64(queue.rank_bitmap))
    trace_run(e, job, Step.POSTED, request.first, request.mid, request.count, who)
    translate_addresses(e, queue, wqe, wqe_address, request)
    request.zero_copy = may_send_in_place(e, job, request, address_record(wqe_address + ADDRESS))
    if request.count == 0:
        retire(e, queue_index)


@internal
def check_request(e, job, queue, wqe):
    """Returns SUCCESS, or the status of a fault."""
    if wqe.contributors > ContributorClass.ALL:
        return Status.NOT_SUPPORTED
    if wqe.jid != job.jid or wqe.route != job.route or wqe.flags & ~KNOWN_FLAGS:
        return Status.INVALID_REQUEST
    if not is_power_of_two(wqe.chunk) or not MIN_CHUNK <= wqe.chunk <= job.chunk:
        return Status.INVALID_REQUEST
    if wqe.rank_bitmap != queue.rank_bitmap or wqe.address_count != queue.rank_count:
        return Status.INVALID_REQUEST
    if job.node_count <= MAX_CHILDREN and wqe.node_bitmap != all_nodes(job):
        return Status.INVALID_REQUEST
    has_list = wqe.flags & WqeFlag.ADDRESS_LIST != 0
    if (wqe.address_count > 1) != has_list or (wqe.flags & WqeFlag.INLINE and wqe.address_count > 1):
        return Status.INVALID_REQUEST
    status = check_message(e, job, wqe)
    if status == Status.SUCCESS and wqe.seg != U64(queue.position) & (U64(job.slots) - ONE):
        return Status.BUFFER_ERROR
    return status


@internal
def check_message(e, job, wqe):
    """Check the op, type, blocks and segments of a message. Returns SUCCESS, or the status of a fault."""
    if wqe.contributors == ContributorClass.NONE:
        return Status.SUCCESS if wqe.length == ZERO and wqe.segments == 1 else Status.INVALID_REQUEST
    size = itemsize(e, wqe.dtype)
    if wqe.contributors == ContributorClass.ALL and not is_supported(e, wqe.op, wqe.dtype):
        return Status.NOT_SUPPORTED
    if size == ZERO:
        return Status.NOT_SUPPORTED
    if wqe.length == ZERO:
        return Status.SUCCESS if wqe.segments == 0 else Status.INVALID_REQUEST
    segment = segment_bytes(e, job, wqe.chunk, wqe.op, wqe.dtype, wqe.contributors)
    if wqe.block == ZERO or wqe.block > wqe.length or wqe.length % size or wqe.block % size or segment % size:
        return Status.INVALID_REQUEST
    if wqe.length // segment + wqe.length // wqe.block >= MAX_SEGMENTS:
        return Status.INVALID_REQUEST
    end = U64(wqe.sid) + U64(wqe.segments)
    is_inside = wqe.segments and end <= segments_of(wqe.length, wqe.block, segment)
    return Status.SUCCESS if is_inside else Status.INVALID_REQUEST


@internal
def fill_request(e, job, queue, wqe, request):
    """Its control information and its place in the stream."""
    request.op = wqe.op
    request.dtype = wqe.dtype
    request.contributors = wqe.contributors
    request.sid = wqe.sid
    request.length = wqe.length
    request.block = wqe.block
    request.segment = segment_bytes(e, job, wqe.chunk, wqe.op, wqe.dtype, wqe.contributors)
    request.per_block = max(ONE, quotient_up(wqe.block, request.segment))
    request.count = wqe.segments
    request.first = queue.position
    request.fence = wqe.flags & WqeFlag.FENCE != 0
    request.inline = wqe.flags & WqeFlag.INLINE != 0
    request.is_long = wqe.flags & WqeFlag.LONG != 0 or wqe.length >= LONG_BYTES
    queue.position += request.count
    if wqe.deadline_ms:
        request.deadline = e.now + U64(wqe.deadline_ms) * MILLISECOND
        e.next_deadline = min(e.next_deadline, request.deadline)


@internal
def translate_addresses(e, queue, wqe, wqe_address, request):
    """Translate the address list. If an entry is not allowed, the rank contributes the error, so the stream stays in
    step, and all members get the status."""
    place = wqe_address + ADDRESS
    request.addresses = wqe.address_count
    if wqe.flags & WqeFlag.ADDRESS_LIST:
        pointer = address_record(place).source
        size = U64(wqe.address_count) * ADDRESS_SIZE
        found = find_region(e, queue.client, wqe.source_lkey, pointer, size, Access.READ)
        if not found or region_at(e, found - 1).mapped == ZERO:
            request.poison = Status.LOCAL_PROTECTION_ERROR
            return
        place = translate(e, region_at(e, found - 1), pointer)
    for entry in range(wqe.address_count):
        copy(address_place(request, entry), place + U64(entry) * ADDRESS_SIZE, ADDRESS_SIZE)
        status = translate_address(e, queue, wqe, request, entry)
        request.poison = max(request.poison, status)
    if request.inline:
        copy(address_of(request) + INLINE_DATA, place + SOURCE, U64(MAX_INLINE))


@internal
def translate_address(e, queue, wqe, request, entry):
    """Check and translate an entry of the address list; returns its status."""
    address = address_record(address_place(request, entry))
    blocks = blocks_of(request.length, request.block)
    if U64(address.source_first) + U64(address.source_blocks) > blocks:
        return Status.INVALID_REQUEST
    if U64(address.destination_first) + U64(address.destination_blocks) > blocks:
        return Status.INVALID_REQUEST
    if request.contributors == ContributorClass.ALL and U64(address.source_blocks) != blocks:
        return Status.INVALID_REQUEST
    brought = range_bytes(request.length, request.block, address.source_first, address.source_blocks)
    wanted = range_bytes(request.length, request.block, address.destination_first, address.destination_blocks)
    if request.inline and brought > U64(MAX_INLINE):
        return Status.INVALID_REQUEST
    if wanted:
        found = find_region(e, queue.client, wqe.destination_lkey, address.destination, wanted, Access.WRITE)
        if not found:
            return Status.LOCAL_PROTECTION_ERROR
        address.destination = translate(e, region_at(e, found - 1), address.destination)
        request.destination_process = process_of(region_at(e, found - 1), queue.client)
    if brought and not request.inline:
        found = find_region(e, queue.client, wqe.source_lkey, address.source, brought, Access.READ)
        if not found:
            return Status.LOCAL_PROTECTION_ERROR
        address.source = translate(e, region_at(e, found - 1), address.source)
        request.source_process = process_of(region_at(e, found - 1), queue.client)
    return Status.SUCCESS


@internal
def drain(e, queue_index, budget):
    """Complete up to `budget` requests of a queue whose job has ended; returns whether there were any."""
    queue = queue_at(e, queue_index)
    if not queue.active or not queue.job or queue.head == queue.tail:
        return False
    job = job_at(e, queue.job - 1)
    if job.state != JobState.ABORTED:
        return False
    flush(e, queue_index, job.status, job.missing_kind, U64(job.missing), budget)
    return True


# QUERY


@internal
def answer_query(e, queue_index, wqe):
    """Append one completion: PENDING with positions done and members missing; SUCCESS for a message not in flight."""
    queue = queue_at(e, queue_index)
    found = find_message(e, queue_index, wqe.mid)
    action = action_at(e, append(e, ActionKind.COMPLETE))
    action.queue = queue_index
    action.count = queue.qp
    action.opcode = WqeOpcode.QUERY
    action.wr_id = wqe.wr_id
    action.mid = wqe.mid
    action.status = Status.SUCCESS
    if queue.job:
        action.jid = job_at(e, queue.job - 1).jid
    if found and queue.job:
        request = request_at(e, request_index(e, queue_index, found - U64(1)))
        action.status = Status.PENDING
        action.position = request.done
        action.byte_length = bytes_of(request, request.done)
        job = job_at(e, queue.job - 1)
        begun = distance(job.base, request.first) > 0
        position = job.base if begun else request.first
        scope, missing = missing_for_position(e, job, position)
        if missing == U64(0):
            ask_above(e, job, slot_at(e, slot_index(job, first_begun_position(e, job, position))))
        action.missing_kind = scope
        action.missing = missing


@internal
def find_message(e, queue_index, mid):
    """1 + counter of the outstanding request of a message; 0 if none."""
    queue = queue_at(e, queue_index)
    for offset in range(U64(queue.tail - queue.head) & U64(0xFFFFFFFF)):
        if request_at(e, request_index(e, queue_index, queue.head + offset)).mid == mid:
            return U64((queue.head + offset) & 0xFFFFFFFF) + U64(1)
    return U64(0)


@internal
def ask_above(e, job, slot):
    """No missing member is known: PROBE the device above, so that the next query can name one."""
    if awaits_answer(slot) and not slot.unacked and slot.retries == 0 and job.state == JobState.ACTIVE:
        probe_above(e, job, slot)
        back_off(e, job, slot)


# Memory regions


@internal
def find_region(e, client, lkey, address, length, access):
    """1 + row of the region that allows this access; 0: wrong key, bounds or rights."""
    for index in range(e.regions):
        region = region_at(e, index)
        if region.client == client + 1 and region.lkey == lkey:
            inside = address >= region.start and U64(length) <= region.length
            inside = inside and address - region.start <= region.length - U64(length)
            return index + 1 if inside and region.access & access == access else 0
    return 0


@internal
def translate(e, region, address):
    """Device address of a client's address: in the mapping of the region; unmapped, the address itself."""
    if region.mapped == ZERO:
        return address
    return region.mapped + (address - region.start)


@internal
def process_of(region, client):
    """0 if the region is mapped, else 1 + the client whose memory it is, here or by RDMA."""
    return client + 1 if region.mapped == ZERO else MAPPED


@internal
def add_region(e, client, lkey, start, length, access, mapped):
    """False: the table is full, or the client has the key already."""
    free = -1
    for index in range(e.regions):
        region = region_at(e, index)
        if region.client == client + 1 and region.lkey == lkey:
            return False
        if region.client == 0 and free < 0:
            free = index
    if free < 0:
        return False
    region = region_at(e, free)
    region.client = client + 1
    region.lkey = lkey
    region.start = start
    region.length = length
    region.access = access
    region.mapped = mapped
    return True


@internal
def remove_region(e, client, lkey):
    """False: the client has no such region."""
    for index in range(e.regions):
        region = region_at(e, index)
        if region.client == client + 1 and region.lkey == lkey:
            region.client = 0
            region.mapped = ZERO
            return True
    return False

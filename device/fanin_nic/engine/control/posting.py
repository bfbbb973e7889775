"""A work request is checked and takes its positions in the job's stream (steps S3 and S401)."""

from __future__ import annotations

from fanin_nic.engine.completion.retire import complete_request, flush, retire
from fanin_nic.engine.control.abort import abort
from fanin_nic.engine.segment.complete import all_nodes
from fanin_nic.engine.segment.contribute import is_supported, itemsize
from fanin_nic.engine.state import (
    ONE,
    REQUEST,
    U64,
    ZERO,
    Counter,
    JobState,
    count,
    job_at,
    queue_at,
    region_at,
    request_at,
    request_index,
)
from fanin_nic.engine.transfer.regions import find_region, process_of, translate
from fanin_nic.native.compiled import compiled
from fanin_nic.native.memory import address_of, fill_zero, load_u64, record_at
from fanin_wire import abi
from fanin_wire.abi import Access, ContributorClass, Status, WqeFlag, WqeOpcode

ACTIVE, ABORTED = int(JobState.ACTIVE), int(JobState.ABORTED)
COLLECTIVE = int(WqeOpcode.COLLECTIVE)
SIGNALED, ADDRESS_LIST = int(WqeFlag.SIGNALED), int(WqeFlag.ADDRESS_LIST)
CLASS_NONE, CLASS_ALL = int(ContributorClass.NONE), int(ContributorClass.ALL)
READ, WRITE = int(Access.READ), int(Access.WRITE)
SUCCESS, INVALID_REQUEST = int(Status.SUCCESS), int(Status.INVALID_REQUEST)
NOT_SUPPORTED, BUFFER_ERROR = int(Status.NOT_SUPPORTED), int(Status.BUFFER_ERROR)
NOT_CONFIGURED, LOCAL_PROTECTION_ERROR = int(Status.NOT_CONFIGURED), int(Status.LOCAL_PROTECTION_ERROR)
REQUESTS = int(Counter.REQUESTS)
REQUEST_SIZE = U64(REQUEST.itemsize)
MILLISECOND = U64(1_000_000)
INLINE_ADDRESSES, MAX_ADDRESSES = abi.INLINE_ADDRESSES, abi.MAX_ADDRESSES
ADDRESS_SIZE = U64(16)
ADDRESSES = U64(abi.WQE.fields["address"][1])  # type: ignore[index]

# The WQE of the ABI without its address list, which is read by address.
_SCALARS = [name for name in (abi.WQE.names or ()) if name != "address"]
wqe_at = record_at(abi.WQE[_SCALARS])


@compiled
def can_post(e, queue_index):
    """Whether the device has room for one more request of a queue."""
    queue = queue_at(e, queue_index)
    return queue.active and (U64(queue.tail - queue.head) & U64(0xFFFFFFFF)) < U64(e.requests)


@compiled
def post(e, queue_index, wqe_address):
    """Event: a WQE, copied out of the client's ring to `wqe_address`. `can_post` was asked before."""
    queue = queue_at(e, queue_index)
    wqe = wqe_at(wqe_address)
    request = request_at(e, request_index(e, queue_index, queue.tail))
    fill_zero(address_of(request), REQUEST_SIZE)
    request.wr_id = wqe.wr_id
    request.opcode = wqe.opcode
    request.signaled = wqe.flags & SIGNALED
    request.mid = wqe.mid
    count(e, REQUESTS)
    if not queue.job or job_at(e, queue.job - 1).state < ACTIVE:
        complete_request(e, queue_index, request, NOT_CONFIGURED, 0, ZERO)
        return
    job = job_at(e, queue.job - 1)
    if job.state != ACTIVE:
        complete_request(e, queue_index, request, job.status, job.missing_kind, U64(job.missing))
        return
    queue.tail += 1
    status = examine(e, job, queue, wqe)
    if status:
        abort(e, job, status, 0, queue.rank_bitmap)
        return
    fill_request(e, job, queue, wqe, request)
    take_addresses(e, queue, wqe, wqe_address, request)
    if request.count == 0:
        retire(e, queue_index)


@compiled
def examine(e, job, queue, wqe):
    """Status of a WQE that does not make sense; SUCCESS if it does."""
    if wqe.opcode != COLLECTIVE or wqe.contributors > CLASS_ALL:
        return NOT_SUPPORTED
    if wqe.jid != job.jid or wqe.chunk != job.chunk or wqe.route != job.route:
        return INVALID_REQUEST
    if wqe.rank_bitmap != queue.rank_bitmap or wqe.address_count != queue.rank_count:
        return INVALID_REQUEST
    if job.node_count <= 64 and wqe.node_bitmap != all_nodes(job):
        return INVALID_REQUEST
    if wqe.address_count > INLINE_ADDRESSES and not wqe.flags & ADDRESS_LIST:
        return INVALID_REQUEST
    if wqe.contributors != CLASS_NONE or wqe.length:
        if not is_supported(e, wqe.op, wqe.dtype):
            return NOT_SUPPORTED
        if wqe.length % itemsize(e, wqe.dtype):
            return INVALID_REQUEST
    if positions_of(wqe) > U64(0x3FFFFFFF):
        return INVALID_REQUEST
    if wqe.seg != U64(queue.position) & (U64(job.slots) - ONE):
        return BUFFER_ERROR
    return SUCCESS


@compiled
def positions_of(wqe):
    """Positions that a WQE takes: one for each chunk; one if nobody brings data; none for zero bytes."""
    if wqe.contributors == CLASS_NONE:
        return ONE
    whole, rest = wqe.length // U64(wqe.chunk), wqe.length % U64(wqe.chunk)
    return whole + ONE if rest else whole


@compiled
def fill_request(e, job, queue, wqe, request):
    """The control information of the request, and its place in the stream."""
    request.op = wqe.op
    request.dtype = wqe.dtype
    request.contributors = wqe.contributors
    request.sid = wqe.sid
    request.length = wqe.length
    request.count = positions_of(wqe)
    request.first = queue.position
    queue.position += request.count
    if wqe.deadline_ms:
        request.deadline = e.now + U64(wqe.deadline_ms) * MILLISECOND
        e.next_deadline = min(e.next_deadline, request.deadline)


@compiled
def take_addresses(e, queue, wqe, wqe_address, request):
    """Translate the address list. What is not allowed makes the rank contribute the error instead of data, so that the
    stream stays in step and everybody learns of it."""
    list_address = wqe_address + ADDRESSES
    if wqe.flags & ADDRESS_LIST:
        pointer = load_u64(list_address)
        size = U64(wqe.address_count) * ADDRESS_SIZE
        found = find_region(e, queue.client, wqe.source_lkey, pointer, size, READ)
        if not found or region_at(e, found - 1).mapped == ZERO:
            request.poison = LOCAL_PROTECTION_ERROR
            request.addresses = wqe.address_count
            return
        list_address = translate(e, region_at(e, found - 1), pointer)
    request.addresses = wqe.address_count
    for entry in range(wqe.address_count):
        place = list_address + U64(entry) * ADDRESS_SIZE
        source, destination = load_u64(place) + wqe.offset, load_u64(place + U64(8)) + wqe.offset
        take_address(e, queue, wqe, request, entry, source, destination)


@compiled
def take_address(e, queue, wqe, request, entry, source, destination):
    """One entry of the address list."""
    if request.length == 0:
        return
    readable = find_region(e, queue.client, wqe.source_lkey, source, request.length, READ)
    writable = find_region(e, queue.client, wqe.destination_lkey, destination, request.length, WRITE)
    if not readable or not writable:
        request.poison = LOCAL_PROTECTION_ERROR
        return
    request.source[entry] = translate(e, region_at(e, readable - 1), source)
    request.destination[entry] = translate(e, region_at(e, writable - 1), destination)
    request.source_process = process_of(region_at(e, readable - 1), queue.client)
    request.destination_process = process_of(region_at(e, writable - 1), queue.client)


@compiled
def drain(e, queue_index, budget):
    """Complete what a queue of an ended job still holds, `budget` requests at a time. True when something was done."""
    queue = queue_at(e, queue_index)
    if not queue.active or not queue.job or queue.head == queue.tail:
        return False
    job = job_at(e, queue.job - 1)
    if job.state != ABORTED:
        return False
    flush(e, queue_index, job.status, job.missing_kind, U64(job.missing), budget)
    return True

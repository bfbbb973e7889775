"""JOIN: a rank of this node enters a job through its queue pair."""

from numba import int64

from fanin_nic.engine.jobs.abort import gives_way_to, remember_refusal
from fanin_nic.engine.jobs.config import forwards_config, reset_keepalive_timers
from fanin_nic.engine.jobs.lease import (
    FIXED_START,
    SHARED,
    find_job,
    is_remote_tombstone,
    new_job,
    release,
    set_buffers,
    take_lease,
)
from fanin_nic.engine.jobs.membership import member_window, notify_pending, progress_join
from fanin_nic.engine.output import notice
from fanin_nic.engine.records.accessors import (
    ONE,
    U64,
    ZERO,
    abort,
    action_at,
    bit_of,
    is_power_of_two,
    job_at,
    queue_at,
)
from fanin_nic.engine.records.tables import ENGINE, JOIN_EVENT, JobState
from fanin_nic.engine.slots import REPRODUCIBLE
from fanin_nic.native.compiled import internal, internal_for
from fanin_nic.native.memory import count_bits, lowest_bit, record_at
from fanin_wire.abi import LOCAL_CHUNK, MAX_CHILDREN, MAX_HOPS, MIN_WQE_CHUNK, JobFlag, MessageType, Route, Status

KNOWN_FLAGS = JobFlag.WIDE | REPRODUCIBLE | JobFlag.FIXED_START
MIN_SLOTS = 4

join_event = record_at(JOIN_EVENT)


@internal
def is_valid(e, request):
    """Whether a JOIN makes sense by itself."""
    if request.rank_bitmap == ZERO or request.rank_bitmap & ~request.rank_mask != ZERO:
        return False
    if count_bits(request.rank_bitmap) > e.addresses:
        return False
    if not is_power_of_two(request.slots) or request.slots < MIN_SLOTS:
        return False
    if request.flags & REPRODUCIBLE and not follow_each_other(request):
        return False
    longest = max(e.max_chunk, LOCAL_CHUNK) if request.route == Route.LOCAL else e.max_chunk
    if not is_power_of_two(request.chunk) or not MIN_WQE_CHUNK <= request.chunk <= longest:
        return False
    if request.hop_count > MAX_HOPS or request.flags & ~KNOWN_FLAGS:
        return False
    if request.route == Route.LOCAL:
        return request.node_count == 1 and request.hop_count == 0
    if request.route == Route.TREE:
        return request.hop_count >= 1 and request.node_count >= 1
    return request.route == Route.RING and is_valid_ring(request)


@internal
def follow_each_other(request):
    """Whether no other rank of the node is between the ranks of a queue pair, so that they can be read in turn."""
    behind = request.rank_mask & ~(bit_of(lowest_bit(U64(request.rank_bitmap))) - ONE)
    for _ in range(count_bits(request.rank_bitmap)):
        behind &= behind - ONE
    return behind & request.rank_bitmap == ZERO


@internal
def is_valid_ring(request):
    """A reproducible ring counts the previous node as one more child (`lease`)."""
    if not 2 <= request.node_count <= MAX_CHILDREN or request.node_index >= request.node_count:
        return False
    if request.hop_count and not request.flags & FIXED_START:  # its last node must complete every partial
        return False
    return not request.flags & REPRODUCIBLE or count_bits(request.rank_mask) < MAX_CHILDREN


@internal_for(ENGINE, int64, int64, int64)
def refuse_join(e, queue_index, status, slots):
    """Answer a JOIN that changes nothing. `slots`: how many would fit."""
    notice(e, queue_index, MessageType.JOIN, status, 0, U64(0))
    action_at(e, e.action_count - 1).byte_length = slots


@internal
def join(e, queue_index, event):
    """Event: JOIN, at address `event`, of a queue pair. A NOTICE answers it, at once or when all have joined."""
    request = join_event(event)
    queue = queue_at(e, queue_index)
    queue.tag = request.tag
    if queue.job or not is_valid(e, request):
        refuse_join(e, queue_index, Status.INVALID_REQUEST, 0)
        return
    found = find_job(e, request.jid)
    if found and may_replace(job_at(e, found - 1), request):
        replace_tombstone(e, queue_index, job_at(e, found - 1), request)
    elif found and job_at(e, found - 1).key != request.key:
        remember_refusal(job_at(e, found - 1), request.key)
        refuse_join(e, queue_index, Status.JID_IN_USE, 0)
    elif found:
        enter_job(e, queue_index, job_at(e, found - 1), request)
    else:
        create_job(e, queue_index, request)


@internal
def may_replace(job, request):
    """Whether a JOIN may replace a tombstone: of another incarnation, or of a job that no rank here has joined."""
    return gives_way_to(job, request.key) or (job.key == request.key and is_remote_tombstone(job))


@internal
def replace_tombstone(e, queue_index, job, request):
    """Form the job in place of the tombstone. If that is of this incarnation, the job aborts at once."""
    failed = job.key == request.key
    status, scope, missing, lost_device = job.status, job.missing_kind, U64(job.missing), job.lost_device
    release(e, job)
    create_job(e, queue_index, request)
    if failed and queue_at(e, queue_index).job:
        job = job_at(e, queue_at(e, queue_index).job - 1)
        job.lost_device = lost_device
        abort(e, job, status, scope, missing)


@internal
def create_job(e, queue_index, request):
    """The first rank of this node: make the job and lease its slots. A draining device refuses new jobs, but lets
    in the other ranks of a job that it has begun to form."""
    made = new_job(e, request.jid, request.key, queue_at(e, queue_index).client + 1)
    if not made:
        refuse_join(e, queue_index, Status.NO_RESOURCES, 0)
        return
    job = job_at(e, made - 1)
    describe_job(e, job, request)
    job.state = JobState.JOINING
    if not e.draining and take_lease(e, job, request.slots):
        job.offered_window = member_window(e, job)
        enter_job(e, queue_index, job, request)
    else:  # the other members must learn of it
        bind_queue(e, queue_index, queue_at(e, queue_index), job, request.rank_bitmap)
        abort(e, job, Status.DRAINING if e.draining else Status.NO_RESOURCES, 0, ZERO)


@internal
def describe_job(e, job, request):
    job.route = request.route
    job.flags = request.flags
    job.chunk = request.chunk
    job.rank_mask = request.rank_mask
    job.digest_high = request.digest_high
    job.digest_low = request.digest_low
    job.node_index = request.node_index
    job.node_count = request.node_count
    job.last_lane = e.last_lane
    job.heard = e.now
    job.heard_next = e.now
    job.heard_previous = e.now
    reset_keepalive_timers(e, job)
    if request.route == Route.RING:
        describe_ring(job, request)
    if request.hop_count and not forwards_config(job):
        describe_path(job, request)
    set_buffers(e, job)


@internal
def describe_path(job, request):
    """The first hop is the device above, the others go into CONFIG. In a ring only the last node has one."""
    job.has_parent = 1
    job.parent_address = request.hop_address[0]
    job.parent_bit = request.hop_bit[0]
    job.parent_mask = request.hop_mask[0]
    job.hop_count = request.hop_count - 1
    for level in range(job.hop_count):
        job.hop_address[level] = request.hop_address[level + 1]
        job.hop_bit[level] = request.hop_bit[level + 1]
        job.hop_mask[level] = request.hop_mask[level + 1]


@internal
def describe_ring(job, request):
    """Data comes from the previous node and goes to the next; CONFIG runs from node 0 to the last."""
    previous = (U64(request.node_index) + U64(request.node_count) - U64(1)) % U64(request.node_count)
    job.next_address = request.next_address
    job.previous_address = request.previous_address
    job.node_mask = bit_of(previous)
    job.config_mask = ZERO if request.node_index == 0 else bit_of(previous)


@internal
def enter_job(e, queue_index, job, request):
    """Enter one more queue pair with its ranks."""
    queue = queue_at(e, queue_index)
    if job.state == JobState.ABORTED:
        refuse_join(e, queue_index, job.status, 0)
        return
    if job.state != JobState.JOINING or job.rank_joined & request.rank_bitmap != ZERO:
        refuse_join(e, queue_index, Status.INVALID_REQUEST, 0)
        return
    same = job.digest_high == request.digest_high and job.digest_low == request.digest_low
    same = same and job.flags == request.flags
    if not same or job.rank_mask != request.rank_mask or job.chunk != request.chunk or job.route != request.route:
        refuse_join(e, queue_index, Status.MEMBERS_MISMATCH, 0)
        abort(e, job, Status.MEMBERS_MISMATCH, 0, request.rank_bitmap)
        return
    if queue.client + 1 != job.owner:
        job.owner = SHARED
    bind_queue(e, queue_index, queue, job, request.rank_bitmap)
    progress_join(e, job)
    if job.state == JobState.JOINING:
        notify_pending(e, job)


@internal
def bind_queue(e, queue_index, queue, job, rank_bitmap):
    queue.job = job.index + 1
    queue.rank_bitmap = rank_bitmap
    queue.rank_count = count_bits(rank_bitmap)
    queue.joined = 0
    queue.reading = 0
    queue.reads_open = 0
    queue.read_segments = 0
    queue.position = e.first_position
    job.rank_joined |= rank_bitmap
    for rank in range(MAX_CHILDREN):
        if rank_bitmap & bit_of(rank) != ZERO:
            job.queue[rank] = queue_index + 1

"""Reading what the ranks contribute: the device serves the send queues in turn (steps S402 and S405).

Mapped memory is computed from in place. Memory of a process is asked for with a DMA_READ of a run of segments; the
event `dma_done` brings it. A rank is read only as far as its job's window: position p when p - W is done.
"""

from __future__ import annotations

from fanin_nic.engine.actions import ActionKind
from fanin_nic.engine.completion.retire import retire
from fanin_nic.engine.packet.encapsulate import append
from fanin_nic.engine.segment.rank import contribute_rank
from fanin_nic.engine.state import (
    U64,
    JobState,
    action_at,
    distance,
    job_at,
    queue_at,
    request_at,
    request_index,
)
from fanin_nic.native.compiled import compiled
from fanin_nic.native.memory import count_bits

ACTIVE = int(JobState.ACTIVE)
DMA_READ = int(ActionKind.DMA_READ)
READ_BYTES = 65536  # of one DMA_READ


@compiled
def has_work(e, queue_index):
    """Whether serving a queue would do something now."""
    queue = queue_at(e, queue_index)
    if not queue.active or queue.reading or queue.read == queue.tail or not queue.job:
        return False
    job = job_at(e, queue.job - 1)
    if job.state != ACTIVE:
        return False
    request = request_at(e, request_index(e, queue_index, queue.read))
    return request.count == 0 or in_window(job, request.first + queue.read_segments)


@compiled
def in_window(job, position):
    """Whether a position may be started."""
    return distance(position, job.base) < job.window


@compiled
def serve(e, queue_index, budget):
    """Contribute up to `budget` segments of a queue. Returns how many."""
    served = 0
    while served < budget and has_work(e, queue_index):
        queue = queue_at(e, queue_index)
        request = request_at(e, request_index(e, queue_index, queue.read))
        if request.count == 0:
            queue.read += 1
            retire(e, queue_index)
        elif request.source_process and not request.poison:
            start_read(e, queue_index, request)
        else:
            segment = queue.read_segments
            advance(queue, request, 1)
            contribute_all(e, queue_index, request, segment)
            served += 1
    return served


@compiled
def advance(queue, request, segments):
    """Segments of the request being read have been taken."""
    queue.read_segments += segments
    if queue.read_segments == request.count:
        queue.read_segments = 0
        queue.read += 1


@compiled
def contribute_all(e, queue_index, request, segment):
    """One segment of every buffer of a request with mapped memory (or of a poisoned one)."""
    job = job_at(e, queue_at(e, queue_index).job - 1)
    offset = U64(segment) * U64(job.chunk)
    for entry in range(request.addresses):
        contribute_rank(e, queue_index, request, segment, entry, request.source[entry] + offset)
        if job.state != ACTIVE:
            return


@compiled
def read_limit(e, job):
    """Segments of one DMA_READ. Its end can complete them all, with a write and a completion for each rank."""
    room = U64(e.actions) // U64(4) // (U64(2) * count_bits(job.rank_mask) + U64(1))
    return int(max(U64(1), min(U64(READ_BYTES) // U64(job.chunk), room)))


@compiled
def start_read(e, queue_index, request):
    """Ask for the next run of segments of each buffer of a request in process memory."""
    queue = queue_at(e, queue_index)
    job = job_at(e, queue.job - 1)
    first = request.first + queue.read_segments
    segments = min(
        min(request.count - queue.read_segments, job.window - distance(first, job.base)),
        read_limit(e, job),
    )
    offset = U64(queue.read_segments) * U64(job.chunk)
    queue.reading = 1
    queue.reads_open = request.addresses
    for entry in range(request.addresses):
        action = action_at(e, append(e, DMA_READ))
        action.queue = queue_index
        action.remote = request.source[entry] + offset
        action.process = request.source_process
        action.position = first
        action.count = segments
        action.length = min(U64(segments) * U64(job.chunk), request.length - offset)
        action.address_index = entry


@compiled
def finish_read(e, queue_index, position, segments, entry, address, status):
    """Event `dma_done`: a run of segments of one buffer lies at `address`, or could not be read (`status`)."""
    queue = queue_at(e, queue_index)
    if not queue.active or not queue.reading or not queue.job or queue.read == queue.tail:
        return
    job = job_at(e, queue.job - 1)
    request = request_at(e, request_index(e, queue_index, queue.read))
    if job.state != ACTIVE or position != U64(request.first + queue.read_segments) & U64(0xFFFFFFFF):
        return
    if status:
        request.poison = max(request.poison, status)
    start = queue.read_segments
    queue.reads_open -= 1
    if queue.reads_open == 0:
        queue.reading = 0
        advance(queue, request, segments)
    for k in range(segments):
        contribute_rank(e, queue_index, request, start + k, entry, address + U64(k) * U64(job.chunk))
        if job.state != ACTIVE:
            return

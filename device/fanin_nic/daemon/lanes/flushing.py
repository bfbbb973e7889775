"""Flushing: a queue that leaves its job, or is destroyed, gives back what it has not done.

Each request gets its one completion, FLUSHED, before the client is told that its queue has left. The engine drops the
same requests when it is told; this comes before, while it still knows them.
"""

from __future__ import annotations

from numba import uint64

from fanin_nic.engine.records.accessors import U32, U64, engine_at, job_at, queue_at, request_at, request_index
from fanin_nic.hostif.rings import CQE_BYTES, complete, fetch
from fanin_nic.native.compiled import compiled
from fanin_nic.native.libc import stack_bytes
from fanin_nic.native.memory import fill_zero, record_at
from fanin_wire import abi

FLUSHED = int(abi.Status.FLUSHED)
SQ_DEPTH = abi.SQ_DEPTH
WQE_SIZE, CQE_SIZE = abi.WQE.itemsize, abi.CQE.itemsize

wqe_at = record_at(abi.WQE[["opcode", "wr_id", "jid", "mid"]])
cqe_at = record_at(abi.CQE)


@compiled
def flush_queue(base, queue, send_ring, completion_ring):
    """Complete, FLUSHED, all that the queue number `queue` of the engine at `base` has under way, in order: what the
    engine holds, then what it has not taken out of the send ring. Returns for how many the completion ring, which says
    so itself, had no room."""
    lost = flush_taken(engine_at(U64(base)), U32(queue), U64(completion_ring))
    return lost + flush_ring(engine_at(U64(base)), U32(queue), U64(send_ring), U64(completion_ring))


@compiled
def flush_taken(e, queue_index, completion_ring):
    """The requests that the engine holds. Returns for how many there was no room."""
    queue, lost = queue_at(e, queue_index), 0
    place = stack_bytes(CQE_SIZE)
    for number in range(uint64(U32(queue.tail - queue.head))):
        request = request_at(e, request_index(e, queue_index, U32(queue.head + number)))
        begin(place, queue.qp, request)
        cqe_at(place).positions = request.done
        if queue.job:
            cqe_at(place).jid = job_at(e, queue.job - 1).jid
        if not complete(completion_ring, place):
            lost += 1
    return lost


@compiled
def flush_ring(e, queue_index, send_ring, completion_ring):
    """The requests in a send ring. As many as it holds: a client that goes on posting keeps nobody waiting. Returns for
    how many there was no room."""
    place, wqe_place, lost = stack_bytes(CQE_SIZE), stack_bytes(WQE_SIZE), 0
    for _ in range(SQ_DEPTH):
        if not fetch(send_ring, wqe_place):
            break
        wqe = wqe_at(wqe_place)
        begin(place, queue_at(e, queue_index).qp, wqe)
        cqe_at(place).jid = wqe.jid
        if not complete(completion_ring, place):
            lost += 1
    return lost


@compiled
def begin(place, qp, request):
    """The completion at `place`: what a request of the engine and one of a client have in common."""
    fill_zero(place, CQE_BYTES)
    cqe = cqe_at(place)
    cqe.wr_id = request.wr_id
    cqe.opcode = request.opcode
    cqe.mid = request.mid
    cqe.qp = qp
    cqe.status = FLUSHED

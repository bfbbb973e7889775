"""Flushing: the unfinished requests of a queue that leaves its job, or is destroyed, complete as FLUSHED, before the
client learns that its queue has left. The engine will drop the same requests; this runs while it still knows them."""

from numba import uint64

from fanin_nic.engine.records.accessors import U32, U64, engine_at, job_at, queue_at, request_at, request_index
from fanin_nic.hostif.rings import CQE_BYTES, complete, fetch
from fanin_nic.native.compiled import compiled
from fanin_nic.native.libc import stack_bytes
from fanin_nic.native.memory import fill_zero, record_at
from fanin_wire import abi
from fanin_wire.abi import Status

SQ_DEPTH = abi.SQ_DEPTH
WQE_SIZE, CQE_SIZE = abi.WQE.itemsize, abi.CQE.itemsize

wqe_at = record_at(abi.WQE[["opcode", "wr_id", "jid", "mid"]])
cqe_at = record_at(abi.CQE)


@compiled
def flush_queue(base, queue, send_ring, completion_ring):
    """Complete all unfinished requests of the queue number `queue` of the engine at `base` as FLUSHED, in order: those
    of the engine, then those in the send ring. Returns the number of completions without room, which the ring notes
    itself."""
    lost = flush_taken(engine_at(U64(base)), U32(queue), U64(completion_ring))
    return lost + flush_ring(engine_at(U64(base)), U32(queue), U64(send_ring), U64(completion_ring))


@compiled
def flush_taken(e, queue_index, completion_ring):
    """Flush the requests of the engine; returns the number of completions without room."""
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
    """Flush the requests in a send ring, at most as many as it holds, so that a client that goes on posting delays no
    other. Returns the number of completions without room."""
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
    """The members of the completion at `place` that requests of engine and client share."""
    fill_zero(place, CQE_BYTES)
    cqe = cqe_at(place)
    cqe.wr_id = request.wr_id
    cqe.opcode = request.opcode
    cqe.mid = request.mid
    cqe.qp = qp
    cqe.status = Status.FLUSHED

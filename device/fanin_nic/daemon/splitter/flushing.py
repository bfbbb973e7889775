"""Flushing in the splitter: requests of a queue that leaves its job, or is destroyed, and that the lanes do not have.
The lanes have flushed their parts, also of a query. Left are requests held by a fence, and those in the client's send
ring."""

from numba import uint64

from fanin_nic.daemon.splitter.merge import merge_queue, retire, wake_clients
from fanin_nic.daemon.splitter.tables import (
    CQE_SCRATCH,
    enter,
    queue_address,
    request_address,
    request_at,
    split_queue_at,
    splitter_at,
    wqe_address,
    wqe_at,
)
from fanin_nic.hostif.rings import SQ_DEPTH, fetch
from fanin_nic.native.compiled import compiled
from fanin_wire.abi import Status


@compiled
def flush_queue(address, index):
    """Complete all unfinished requests of queue `index` as FLUSHED, in order. address: of the SPLITTER."""
    splitter, scratch = splitter_at(uint64(address)), uint64(address) + CQE_SCRATCH
    place = queue_address(splitter, index)
    queue = split_queue_at(place)
    merge_queue(splitter, place, scratch)
    while queue.given != queue.tail:
        give_back(queue, place)
    for _ in range(SQ_DEPTH):  # a client that goes on posting must not delay others
        if not fetch(queue.send_ring, wqe_address(place, queue.tail)):
            break
        enter(request_address(place, queue.tail), wqe_at(wqe_address(place, queue.tail)))
        queue.tail += 1
        give_back(queue, place)
        retire(splitter, place, scratch)
    retire(splitter, place, scratch)
    wake_clients(splitter)


@compiled
def give_back(queue, place):
    """Complete the oldest request that no lane has as FLUSHED."""
    request_at(request_address(place, queue.given)).status = Status.FLUSHED
    queue.given += 1

"""The engine as the control server sees it (hostif.ports.EnginePort).

The unfinished requests of a queue that leaves its job, or is destroyed, complete as FLUSHED, before the client learns
that its queue has left. The engine will drop the same requests; flushing runs while it still knows them. Record 0043:
why clients have shares of the tables, and no fixed quotas.
"""

import time
from typing import NamedTuple

import numpy as np
from numba import uint64

from fanin_nic.engine import events
from fanin_nic.engine.engine import Engine
from fanin_nic.engine.records.accessors import U32, U64, engine_at, job_at, queue_at, request_at, request_index
from fanin_nic.engine.records.tables import JobState
from fanin_nic.hostif.ports import NoResources
from fanin_nic.hostif.rings import CQE_BYTES, complete, fetch
from fanin_nic.hostif.server import MAX_CLIENTS
from fanin_nic.native.compiled import compiled
from fanin_nic.native.libc import stack_bytes
from fanin_nic.native.memory import fill_zero, record_at
from fanin_wire import abi
from fanin_wire.abi import SQ_DEPTH, Status

WQE_SIZE, CQE_SIZE = abi.WQE.itemsize, abi.CQE.itemsize
wqe_at = record_at(abi.WQE[["opcode", "wr_id", "jid", "mid"]])
cqe_at = record_at(abi.CQE)
ALL_ACCESS = abi.Access.READ | abi.Access.WRITE
WHOLE_ADDRESS_SPACE = 2**63 - 1


class End(NamedTuple):
    """Why a job ended early. The missing members and the lost device are as in a CQE."""

    status: int
    missing_kind: int
    missing: int
    lost_device: int


class HostPort:
    """Queues, regions and memberships of the clients of one engine.

    For the compiled loop: by queue `send_rings`, `completion_rings` and `arrival_rings` (addresses) and `overrun` (1: a
    completion had no room), by client `memory_fds` (descriptors of process memory) and `remotes` (addresses of REMOTE
    records of clients over RDMA). `lost_completions`: flushed requests whose completions had no room.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        queues = engine.limits.queues
        self.send_rings = np.zeros(queues, np.uint64)
        self.completion_rings = np.zeros(queues, np.uint64)
        self.arrival_rings = np.zeros(queues, np.uint64)
        self.overrun = np.zeros(queues, np.uint8)
        self.memory_fds = np.full(MAX_CLIENTS, -1, np.int32)
        self.remotes = np.zeros(MAX_CLIENTS, np.uint64)
        self._queues = engine.tables["queues"]
        self.lost_completions = 0

    def attach(self, client: int, memory_fd: int, remote: int = 0) -> None:
        """memory_fd: process memory, if any. remote: the REMOTE record of a client over RDMA."""
        self.memory_fds[client] = memory_fd
        self.remotes[client] = remote
        if memory_fd >= 0:
            self._add(client, abi.LKEY_PROCESS, 0, WHOLE_ADDRESS_SPACE, ALL_ACCESS, 0)

    def detach(self, client: int) -> None:
        events.remove_region(self.engine.base, client, abi.LKEY_PROCESS)
        self.memory_fds[client] = -1
        self.remotes[client] = 0

    def register(self, client: int, lkey: int, start: int, length: int, access: int, device_address: int) -> None:
        """Memory of a client, mapped at `device_address`. Room for the process memory of all clients is kept free."""
        regions = self.engine.tables["regions"]
        registered = regions[(regions["client"] != 0) & (regions["lkey"] != abi.LKEY_PROCESS)]
        self._check_share("regions", registered["client"] - 1, len(regions) - MAX_CLIENTS, client)
        self._add(client, lkey, start, length, access, device_address)

    def _add(self, client: int, lkey: int, *bounds: int) -> None:
        if not events.add_region(self.engine.base, client, lkey, *bounds):
            raise NoResources("regions of the device")

    def _check_share(self, what: str, owners: np.ndarray, total: int, client: int) -> None:
        if self.engine.limits.shared:
            check_share(what, owners, total, client)

    def deregister(self, client: int, lkey: int) -> None:
        """A request that still uses the region ends with its job."""
        regions = self.engine.tables["regions"]
        for region in regions[(regions["client"] == client + 1) & (regions["lkey"] == lkey)]:
            for queue in np.flatnonzero((self._queues["active"] == 1) & (self._queues["client"] == client)):
                if self._uses(int(queue), region):
                    self.fail(int(queue), abi.Status.LOCAL_PROTECTION_ERROR)
        events.remove_region(self.engine.base, client, lkey)

    def _uses(self, queue: int, region: np.void) -> bool:
        """Whether an outstanding request of a queue reads or writes a region."""
        record, depth = self._queues[queue], self.engine.limits.requests
        numbers = int(record["head"]) + np.arange((int(record["tail"]) - int(record["head"])) & 0xFFFFFFFF)
        rows = queue * depth + numbers % depth
        lists, further = self.engine.tables["lists"], self.engine.limits.addresses - 1
        process = 0 if region["mapped"] else int(region["client"])  # as in requests
        first = int(region["mapped"] or region["start"])
        last = first + int(region["length"])
        for row in rows:
            request = self.engine.tables["requests"][row]
            listed = np.append(request["address"], lists[row * further : (row + 1) * further])[: request["addresses"]]
            for place in ("source", "destination"):
                addresses = listed[place]
                if request[f"{place}_process"] == process and ((first <= addresses) & (addresses < last)).any():
                    return True
        return False

    def create_queue(self, client: int, qp: int, cq: int, sq_address: int, cq_address: int, aq_address: int = 0) -> int:
        """Returns the number of the queue."""
        active = self._queues["active"] == 1
        self._check_share("send queues", self._queues["client"][active], len(active), client)
        free = np.flatnonzero(~active)
        if not len(free):
            raise NoResources("send queues of the device")
        queue = int(free[0])
        self._queues[queue] = np.zeros(1, self._queues.dtype)[0]
        self._queues[queue]["active"] = 1
        self._queues[queue]["client"] = client
        self._queues[queue]["qp"] = qp
        self.overrun[queue] = 0
        self.send_rings[queue] = sq_address
        self.completion_rings[queue] = cq_address
        self.arrival_rings[queue] = aq_address
        return queue

    def destroy_queue(self, queue: int, flush: bool = False) -> None:
        """A job that the queue is still in ends. flush: complete its unfinished requests as FLUSHED."""
        if flush:
            self._flush(queue)
        self.engine.lose(queue, time.monotonic_ns())
        self.send_rings[queue] = 0
        self.completion_rings[queue] = 0
        self.arrival_rings[queue] = 0

    def join(self, queue: int, request: np.void) -> None:
        self.engine.join(queue, request, time.monotonic_ns())

    def leave(self, queue: int, tag: int) -> None:
        """Unfinished requests of the queue pair complete as FLUSHED."""
        self._flush(queue)
        self.engine.leave(queue, tag, time.monotonic_ns())

    def _flush(self, queue: int) -> None:
        rings = self.send_rings[queue], self.completion_rings[queue]
        if all(rings):
            self.lost_completions += flush_queue(self.engine.base, queue, *map(int, rings))

    def end_of_job(self, queue: int) -> End | None:
        """Why the job of a queue has ended; None if it has not, or the queue has none."""
        number = int(self._queues[queue]["job"])
        job = self.engine.tables["jobs"][number - 1]
        if number == 0 or job["state"] != JobState.ABORTED:
            return None
        return End(*(int(job[name]) for name in End._fields))

    def end_job(self, queue: int, end: End) -> None:
        """End the job of a queue, if it has one that runs."""
        events.end_job(self.engine.base, queue, *end, time.monotonic_ns())

    def fail(self, queue: int, status: int) -> None:
        """End the job of a queue whose requests can no longer be performed."""
        self.engine.fail(queue, status, time.monotonic_ns())

    def is_in_job(self, queue: int) -> bool:
        """Whether a queue is in a job, which may be forming or have ended."""
        return bool(self._queues[queue]["job"])

    def client_of(self, queue: int) -> int | None:
        """None if the queue is free."""
        record = self._queues[queue]
        return int(record["client"]) if record["active"] else None

    def answer(self, _lane: int, notice: np.void) -> np.void | None:
        """The client's answer to a JOIN or LEAVE is that of the engine."""
        return notice

    @property
    def remote_end(self) -> int:
        """1 + the highest client over RDMA; 0: none."""
        used = np.flatnonzero(self.remotes)
        return int(used[-1]) + 1 if len(used) else 0

    @property
    def queues_in_use(self) -> int:
        """1 + the highest queue in use."""
        used = np.flatnonzero(self._queues["active"])
        return int(used[-1]) + 1 if len(used) else 0


def check_share(what: str, owners: np.ndarray, total: int, client: int) -> None:
    """Refuse one more of `total` rows of a table to a client that has its share. owners: clients of the used rows."""
    free = total - len(owners)
    if Engine.share(int((owners == client).sum()), free) == 0:
        raise NoResources(f"{what}: this client has its share, and {free} are left for the others")


@compiled
def flush_queue(base, queue, send_ring, completion_ring):
    """Complete all unfinished requests of the queue number `queue` of the engine at `base` as FLUSHED, in order: those
    of the engine, then those in the send ring. Returns the number of completions without room, which the ring notes
    itself."""
    lost = _flush_taken(engine_at(U64(base)), U32(queue), U64(completion_ring))
    return lost + _flush_ring(engine_at(U64(base)), U32(queue), U64(send_ring), U64(completion_ring))


@compiled
def _flush_taken(e, queue_index, completion_ring):
    """Flush the requests of the engine; returns the number of completions without room."""
    queue, lost = queue_at(e, queue_index), 0
    place = stack_bytes(CQE_SIZE)
    for number in range(uint64(U32(queue.tail - queue.head))):
        request = request_at(e, request_index(e, queue_index, U32(queue.head + number)))
        _begin_cqe(place, queue.qp, request)
        cqe_at(place).positions = request.done
        if queue.job:
            cqe_at(place).jid = job_at(e, queue.job - 1).jid
        if not complete(completion_ring, place):
            lost += 1
    return lost


@compiled
def _flush_ring(e, queue_index, send_ring, completion_ring):
    """Flush the requests in a send ring, at most as many as it holds, so that a client that goes on posting delays no
    other. Returns the number of completions without room."""
    place, wqe_place, lost = stack_bytes(CQE_SIZE), stack_bytes(WQE_SIZE), 0
    for _ in range(SQ_DEPTH):
        if not fetch(send_ring, wqe_place):
            break
        wqe = wqe_at(wqe_place)
        _begin_cqe(place, queue_at(e, queue_index).qp, wqe)
        cqe_at(place).jid = wqe.jid
        if not complete(completion_ring, place):
            lost += 1
    return lost


@compiled
def _begin_cqe(place, qp, request):
    """The members of the completion at `place` that requests of engine and client share."""
    fill_zero(place, CQE_BYTES)
    cqe = cqe_at(place)
    cqe.wr_id = request.wr_id
    cqe.opcode = request.opcode
    cqe.mid = request.mid
    cqe.qp = qp
    cqe.status = Status.FLUSHED

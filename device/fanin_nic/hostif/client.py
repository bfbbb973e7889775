"""A client: its control region, registered memory and queues, and the requests that it may send."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from contextlib import ExitStack
from typing import NamedTuple

import numpy as np

from fanin_nic.hostif import messages
from fanin_nic.hostif.engine_port import EnginePort, NoResources, Refused
from fanin_nic.hostif.mapping import ClientRegion, ControlRegion, is_process_memory
from fanin_wire import abi
from fanin_wire.abi import MessageType, Status

NO_FD = -1
MAX_MAPPED = 1 << 40  # bytes of one client's regions: 64 clients with as much fit into our address space


class DeviceLimits(NamedTuple):
    """Limits that the device offers each client."""

    max_chunk: int  # bytes: the largest payload of a segment
    slots: int  # seg buffers of the device
    address: int  # IPv4, host order; 0: none
    max_qp: int = 64
    max_cq: int = 64
    max_regions: int = 256
    detection_ms: int = 0  # after which a client may count a device that stands still as lost; 0: never


class SendQueue(NamedTuple):
    """A queue pair: the engine's index of it, and its completion queue."""

    queue: int
    cq: int


class Client:
    """State of one attached process. `index` is its number; `eventfd` wakes the device. Owns `memory_fd`."""

    def __init__(self, index: int, engine: EnginePort, limits: DeviceLimits, memory_fd: int = NO_FD) -> None:
        self.index, self._engine, self._limits = index, engine, limits
        self._regions: dict[int, ClientRegion] = {}
        self._completion_queues: set[int] = set()
        self._queues: dict[int, SendQueue] = {}
        with ExitStack() as undo:
            if memory_fd != NO_FD:
                undo.callback(os.close, memory_fd)
            self.region = ControlRegion(limits.max_qp, limits.max_cq)
            undo.callback(self.region.close)
            self.region.announce(limits.detection_ms)
            self.eventfd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
            undo.callback(os.close, self.eventfd)
            engine.attach(index, memory_fd)
            self._resources = undo.pop_all()

    def attach_reply(self, head: np.void) -> bytes:
        """Answer to ATTACH, sent with the descriptors of the region and of the eventfd."""
        reply = np.zeros(1, abi.ATTACH_REPLY)
        reply["head"][0] = (abi.ABI_VERSION, head["type"], head["tag"], Status["SUCCESS"], 0)
        for name in ("max_qp", "max_cq", "max_chunk", "slots", "address"):
            reply[name] = getattr(self._limits, name)
        for name in ("sq_offset", "sq_stride", "cq_offset", "cq_stride", "aq_offset", "aq_stride"):
            reply[name] = getattr(self.region, name)
        reply["region_bytes"] = self.region.length
        return reply.tobytes()

    def request(self, record: np.void, descriptors: list[int]) -> bytes | None:
        """Carry out a request. Returns its reply, None if that comes late. Raises Refused if the request is wrong."""
        handler = _HANDLERS.get(int(messages.head_of(record)["type"]))
        if handler is None:
            raise Refused(Status["INVALID_REQUEST"], "attached already")
        return handler(self, record, descriptors)

    def _register(self, record: np.void, descriptors: list[int]) -> bytes:
        if len(descriptors) != 1:
            raise Refused(Status["INVALID_REQUEST"], f"{len(descriptors)} descriptors with REGISTER")
        if len(self._regions) >= self._limits.max_regions:
            raise NoResources("regions of a client")
        bounds = (int(record[name]) for name in ("address", "length", "offset", "access"))
        region = ClientRegion(descriptors[0], *bounds)
        lkey = self._new_lkey()
        try:
            if region.length + sum(other.length for other in self._regions.values()) > MAX_MAPPED:
                raise NoResources(f"registered memory of a client: {MAX_MAPPED} bytes at most")
            self._engine.register(self.index, lkey, region.start, region.length, region.access, region.address)
        except BaseException:
            region.close()
            raise
        self._regions[lkey] = region
        record["lkey"] = lkey
        return record.tobytes()

    def _new_lkey(self) -> int:
        """A random key, so that a stale key matches nothing; never the key of process memory."""
        while True:
            lkey = secrets.randbits(31)
            if lkey not in self._regions:
                return lkey

    def _deregister(self, record: np.void, _descriptors: list[int]) -> bytes:
        lkey = int(record["lkey"])
        if lkey not in self._regions:
            raise Refused(Status["INVALID_REQUEST"], f"no region {lkey:#x}")
        self._engine.deregister(self.index, lkey)
        self._regions.pop(lkey).close()
        return record.tobytes()

    def _create_cq(self, record: np.void, _descriptors: list[int]) -> bytes:
        cq = _lowest_free(self._completion_queues, self._limits.max_cq)
        self.region.clear_ring(self.region.completion_ring(cq))
        self._completion_queues.add(cq)
        record["cq"] = cq
        return record.tobytes()

    def _destroy_cq(self, record: np.void, _descriptors: list[int]) -> bytes:
        cq = int(record["cq"])
        if cq not in self._completion_queues or any(entry.cq == cq for entry in self._queues.values()):
            raise Refused(Status["INVALID_REQUEST"], f"completion queue {cq} does not exist or is in use")
        self._completion_queues.remove(cq)
        return record.tobytes()

    def _create_qp(self, record: np.void, _descriptors: list[int]) -> bytes:
        cq = int(record["cq"])
        if cq not in self._completion_queues:
            raise Refused(Status["INVALID_REQUEST"], f"no completion queue {cq}")
        qp = _lowest_free(self._queues, self._limits.max_qp)
        rings = self.region.send_ring(qp), self.region.completion_ring(cq), self.region.arrival_ring(qp)
        self.region.clear_ring(self.region.send_ring(qp))
        self.region.clear_ring(self.region.arrival_ring(qp))
        self._queues[qp] = SendQueue(self._engine.create_queue(self.index, qp, cq, *rings), cq)
        record["qp"] = qp
        return record.tobytes()

    def _destroy_qp(self, record: np.void, _descriptors: list[int]) -> bytes:
        self._engine.destroy_queue(self._queue_of(record), flush=True)
        del self._queues[int(record["qp"])]
        return record.tobytes()

    def _join(self, record: np.void, _descriptors: list[int]) -> None:
        queue = self._queue_of(record)
        messages.check_join(record, self._limits.max_chunk)
        self._engine.join(queue, record)

    def _leave(self, record: np.void, _descriptors: list[int]) -> None:
        self._engine.leave(self._queue_of(record), int(record["head"]["tag"]))

    def _queue_of(self, record: np.void) -> int:
        entry = self._queues.get(int(record["qp"]))
        if entry is None:
            raise Refused(Status["INVALID_REQUEST"], f"no queue pair {record['qp']}")
        return entry.queue

    def close(self) -> None:
        """Take everything back from the engine, tell the client, then unmap: a client that is told may use its memory
        again."""
        for entry in self._queues.values():
            self._engine.destroy_queue(entry.queue)
        self.region.mark_gone()
        for lkey, region in self._regions.items():
            self._engine.deregister(self.index, lkey)
            region.close()
        self._engine.detach(self.index)
        self._resources.close()


def accept_process_memory(descriptors: list[int]) -> int:
    """Descriptor of the memory of the client, which the caller then owns; NO_FD if it passed none."""
    if not descriptors:
        return NO_FD
    if len(descriptors) > 1 or not is_process_memory(descriptors[0]):
        raise Refused(Status["INVALID_REQUEST"], "the descriptor of ATTACH is not the memory of a process")
    return os.dup(descriptors[0])


Handler = Callable[[Client, np.void, list[int]], bytes | None]
_HANDLERS: dict[int, Handler] = {
    int(MessageType["REGISTER"]): Client._register,
    int(MessageType["DEREGISTER"]): Client._deregister,
    int(MessageType["CREATE_CQ"]): Client._create_cq,
    int(MessageType["DESTROY_CQ"]): Client._destroy_cq,
    int(MessageType["CREATE_QP"]): Client._create_qp,
    int(MessageType["DESTROY_QP"]): Client._destroy_qp,
    int(MessageType["JOIN"]): Client._join,
    int(MessageType["LEAVE"]): Client._leave,
}


def _lowest_free(used: set[int] | dict[int, SendQueue], limit: int) -> int:
    for index in range(limit):
        if index not in used:
            return index
    raise NoResources("queues of a client")

"""A client: its control region, registered memory and queues, and the requests that it may send."""

import functools
import logging
import os
import secrets
from collections.abc import Container, Iterable
from contextlib import ExitStack
from typing import NamedTuple

import numpy as np

from fanin_nic.hostif import messages
from fanin_nic.hostif.mapping import COLLECTIVE_ACCESS, ClientRegion, ControlRegion, is_process_memory
from fanin_nic.hostif.ordinary import OrdinaryClient
from fanin_nic.hostif.ports import EnginePort, NoResources, Refused, TransportPort
from fanin_wire import abi
from fanin_wire.abi import Access, MessageType, Status

log = logging.getLogger(__name__)
NO_FD = -1
CQ, QP = "completion queue", "queue pair"
MAX_MAPPED = 1 << 40  # bytes of one client's regions: for 64 clients they fit into our address space


# Limits in the reply to a client
OFFERED = (
    *("max_qp", "max_cq", "max_chunk", "slots", "address", "max_ordinary_qp", "max_shared_queues", "path_mtu"),
    "mtu",
)


class DeviceLimits(NamedTuple):
    """What the device offers each client."""

    max_chunk: int  # bytes: the largest payload of a segment
    slots: int  # segment buffers of the device
    address: int  # IPv4, host order; 0: none
    max_qp: int = 64
    max_cq: int = 64
    max_regions: int = 256
    max_ordinary_qp: int = 0  # 0: no ordinary traffic
    max_shared_queues: int = 0
    path_mtu: int = 0  # bytes: the largest of ordinary traffic
    mtu: int = 0  # bytes: the largest IP packet that the device sends
    detection_ms: int = 0  # after which a client may give up a device that stands still; 0: never


class SendQueue(NamedTuple):
    """The engine's index of a queue pair, and its completion queue."""

    queue: int
    cq: int


class Client:
    """One attached process, number `index`. `doorbell_fd` gets readable to wake the device. Owns `memory_fd`."""

    def __init__(
        self,
        index: int,
        engine: EnginePort,
        limits: DeviceLimits,
        memory_fd: int = NO_FD,
        transport: TransportPort | None = None,
    ) -> None:
        self.index, self._engine, self._limits = index, engine, limits
        self._regions: dict[int, ClientRegion] = {}
        self._completion_queues: set[int] = set()
        self._queues: dict[int, SendQueue] = {}
        with ExitStack() as undo:
            if memory_fd != NO_FD:
                undo.callback(os.close, memory_fd)
            self.region = ControlRegion(limits.max_qp, limits.max_cq, limits.max_ordinary_qp, limits.max_shared_queues)
            undo.callback(self.region.close)
            self.region.announce(limits.detection_ms)
            self._connect(undo, memory_fd)
            self._resources = undo.pop_all()
        has_cq = self._completion_queues.__contains__
        self._ordinary = OrdinaryClient(index, transport, self.region, has_cq, memory_fd != NO_FD)

    def _connect(self, undo: ExitStack, memory_fd: int) -> None:
        """Make the doorbell's descriptor, and attach the client to the engine."""
        self.doorbell_fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        undo.callback(os.close, self.doorbell_fd)
        self._engine.attach(self.index, memory_fd)

    def attach_reply(self, head: np.void) -> bytes:
        """Answer to ATTACH, sent with the descriptors of the region and the eventfd."""
        reply = np.zeros(1, abi.ATTACH_REPLY)
        reply["head"][0] = (abi.ABI_VERSION, head["type"], head["tag"], Status.SUCCESS, 0)
        for name in OFFERED:
            reply[name] = getattr(self._limits, name)
        for ring in ("sq", "cq", "aq", "oq", "srq"):
            for name in (f"{ring}_offset", f"{ring}_stride"):
                reply[name] = getattr(self.region, name)
        reply["oq_receive"] = self.region.oq_receive
        reply["region_bytes"] = self.region.length
        return reply.tobytes()

    def request(self, record: np.void, descriptors: list[int]) -> bytes | None:
        """Handle a request; returns its reply, None if that comes later. Raises Refused."""
        message_type = int(messages.head_of(record)["type"])
        if ordinary := self._ordinary.handler(message_type):
            return ordinary(record)
        handler = self._handler(message_type)
        if handler is None:
            raise Refused(Status.INVALID_REQUEST, "attached already, or not a request of such a client")
        reply: bytes | None = getattr(self, handler)(record, descriptors)
        return reply

    def _handler(self, message_type: int) -> str | None:
        """Name of the method for requests of this type."""
        return _HANDLERS.get(message_type)

    def _register(self, record: np.void, descriptors: list[int]) -> bytes:
        is_ordinary = int(record["access"]) & int(Access.ORDINARY) != 0
        if len(self._regions) + self._ordinary.regions >= self._limits.max_regions:
            raise NoResources("regions of a client")
        if is_ordinary and not descriptors:
            return self._ordinary.register_process(record)
        if len(descriptors) != 1:
            raise Refused(Status.INVALID_REQUEST, f"{len(descriptors)} descriptors with REGISTER")
        bounds = (int(record[name]) for name in ("address", "length", "offset", "access"))
        region = ClientRegion(descriptors[0], *bounds)
        with ExitStack() as undo:
            undo.callback(region.close)
            if region.length + sum(other.length for other in self._regions.values()) > MAX_MAPPED:
                raise NoResources(f"registered memory of a client: {MAX_MAPPED} bytes at most")
            lkey = self._ordinary.register(record, region.address) if is_ordinary else self._new_lkey()
            if is_ordinary:
                undo.callback(self._ordinary.deregister, lkey)
            self._engine.register(
                self.index, lkey, region.start, region.length, region.access & COLLECTIVE_ACCESS, region.address
            )
            undo.pop_all()
        self._regions[lkey] = region
        record["lkey"] = lkey
        return record.tobytes()

    def _new_lkey(self) -> int:
        """Random, so that stale keys match nothing; no key of process memory or of a region of ordinary traffic."""
        while True:
            lkey = secrets.randbits(30) | 1 << 30
            if not self._is_known(lkey):
                return lkey

    def _is_known(self, lkey: int) -> bool:
        return lkey in self._regions

    def _deregister(self, record: np.void, _descriptors: list[int]) -> bytes:
        lkey = int(record["lkey"])
        if self._ordinary.has_region(lkey):
            self._ordinary.deregister(lkey)
        elif lkey in self._regions:
            self._forget_region(lkey)
        else:
            raise Refused(Status.INVALID_REQUEST, f"no region {lkey:#x}")
        return record.tobytes()

    def _forget_region(self, lkey: int) -> None:
        region = self._regions.pop(lkey)
        if region.access & int(Access.ORDINARY):
            self._ordinary.deregister(lkey)
        self._engine.deregister(self.index, lkey)
        region.close()

    def _unused(self, _kind: str, used: Container[int], limit: int) -> int:
        """The lowest free number for a new queue. Raises NoResources."""
        return first_unused(range(limit), used)

    def _create_cq(self, record: np.void, _descriptors: list[int]) -> bytes:
        cq = self._unused(CQ, self._completion_queues, self._limits.max_cq)
        self.region.clear_ring(self.region.completion_ring(cq))
        self._completion_queues.add(cq)
        self._ordinary.open_completions(cq)
        record["cq"] = cq
        return record.tobytes()

    def _destroy_cq(self, record: np.void, _descriptors: list[int]) -> bytes:
        cq = int(record["cq"])
        if cq not in self._completion_queues or self._is_used(cq):
            raise Refused(Status.INVALID_REQUEST, f"completion queue {cq} does not exist or is in use")
        self._completion_queues.remove(cq)
        self._ordinary.close_completions(cq)
        return record.tobytes()

    def _is_used(self, cq: int) -> bool:
        return self._ordinary.uses(cq) or any(entry.cq == cq for entry in self._queues.values())

    def _create_qp(self, record: np.void, _descriptors: list[int]) -> bytes:
        cq = int(record["cq"])
        if cq not in self._completion_queues:
            raise Refused(Status.INVALID_REQUEST, f"no completion queue {cq}")
        qp = self._unused(QP, self._queues, self._limits.max_qp)
        rings = self.region.send_ring(qp), self.region.completion_ring(cq), self._arrivals(qp)
        self.region.clear_ring(self.region.send_ring(qp))
        self.region.clear_ring(self.region.arrival_ring(qp))
        self._queues[qp] = SendQueue(self._engine.create_queue(self.index, qp, cq, *rings), cq)
        record["qp"] = qp
        return record.tobytes()

    def _arrivals(self, qp: int) -> int:
        """Address of the ring for data ahead; 0: none."""
        return self.region.arrival_ring(qp)

    def _destroy_qp(self, record: np.void, _descriptors: list[int]) -> bytes:
        self._engine.destroy_queue(self._queue_of(record), flush=True)
        del self._queues[int(record["qp"])]
        self.mark_end_of_results()
        return record.tobytes()

    def _join(self, record: np.void, _descriptors: list[int]) -> None:
        queue = self._queue_of(record)
        messages.check_join(record, self._limits.max_chunk)
        self._engine.join(queue, record)

    def _leave(self, record: np.void, _descriptors: list[int]) -> None:
        self._engine.leave(self._queue_of(record), int(record["head"]["tag"]))

    def mark_end_of_results(self) -> None:
        """Called before the reply that a queue pair is destroyed, or has left its job, which the client must get after
        all results; shared memory needs nothing."""

    def _queue_of(self, record: np.void) -> int:
        entry = self._queues.get(int(record["qp"]))
        if entry is None:
            raise Refused(Status.INVALID_REQUEST, f"no queue pair {record['qp']}")
        return entry.queue

    def close(self) -> None:
        """Take everything back from the engine, tell the client, which may use its memory again, then unmap."""
        for entry in self._queues.values():
            self._engine.destroy_queue(entry.queue)
        self._ordinary.close()
        for cq in self._completion_queues:
            self._ordinary.close_completions(cq)
        self.region.mark_gone()
        self._forget_regions()
        self._engine.detach(self.index)
        self._resources.close()

    def _forget_regions(self) -> None:
        """Forget all regions, after the queues: a queue that still used one would end its job, as if the rank had
        erred."""
        for lkey in list(self._regions):
            self._forget_region(lkey)


def first_unused(numbers: Iterable[int], used: Container[int]) -> int:
    """The first number that is not used. Raises NoResources."""
    for number in numbers:
        if number not in used:
            return number
    raise NoResources("queues of a client")


@functools.cache
def _sees_descriptors() -> bool:
    """Whether /proc shows what a descriptor is. If not, all memory of ranks has to be registered."""
    sees = os.path.exists("/proc/self/fd")
    if not sees:
        log.warning("/proc is not mounted here, so ranks have registered memory only: mount -t proc proc /proc")
    return sees


def accept_process_memory(descriptors: list[int]) -> int:
    """Descriptor of the client's memory, which the caller then owns; NO_FD if it passed none. Raises Refused."""
    if not descriptors or not _sees_descriptors():
        return NO_FD
    if len(descriptors) > 1 or not is_process_memory(descriptors[0]):
        raise Refused(Status.INVALID_REQUEST, "the descriptor of ATTACH is not the memory of a process")
    return os.dup(descriptors[0])


_HANDLERS: dict[int, str] = {
    int(MessageType[name]): f"_{name.lower()}"
    for name in ("REGISTER", "DEREGISTER", "CREATE_CQ", "DESTROY_CQ", "CREATE_QP", "DESTROY_QP", "JOIN", "LEAVE")
}

"""A client over RDMA: a queue pair fills its rings and reaches its memory; otherwise as any client."""

from collections.abc import Container
from contextlib import ExitStack

import numpy as np

from fanin_nic.hostif.client import CQ, QP, Client, DeviceLimits, first_unused
from fanin_nic.hostif.mapping import COLLECTIVE_ACCESS, MAX_ADDRESS
from fanin_nic.hostif.ports import EnginePort, NoResources, Refused
from fanin_nic.hostif.remote.endpoint import Endpoint, VerbsDevice
from fanin_nic.hostif.remote.queue_pair import MAX_REGIONS
from fanin_nic.port.verbs.interface import VerbsFailed
from fanin_wire import abi, limits
from fanin_wire.abi import MessageType, Status

REACHED_BY_RDMA = 0  # in place of an address here
QUEUES = 32  # of a kind: both sides register their rings, which pins them


class RemoteClient(Client):
    """One client over RDMA: no ordinary traffic, process memory or data ahead. request: abi.ATTACH_RDMA."""

    def __init__(
        self, index: int, engine: EnginePort, offered: DeviceLimits, device: VerbsDevice, request: np.void
    ) -> None:
        self._device, self._other = device, request["endpoint"]
        self._keys: dict[int, tuple[int, int]] = {}  # start and remote key of a region, by its key here
        self._last_number = {CQ: -1, QP: -1}
        limited = offered._replace(max_qp=QUEUES, max_cq=QUEUES, max_ordinary_qp=0, max_shared_queues=0, path_mtu=0)
        super().__init__(index, engine, limited)

    def _connect(self, undo: ExitStack, memory_fd: int) -> None:
        bound = self._limits.detection_ms / 1000 or limits.DEFAULT_DETECTION
        try:
            self.endpoint = Endpoint(self._device, self.region, bound)
            undo.callback(self.endpoint.close)
            self.endpoint.connect(self._other)
        except VerbsFailed as error:
            raise NoResources(str(error)) from error
        self.doorbell_fd = self.endpoint.event_fd
        self._engine.attach(self.index, memory_fd, self.endpoint.state)

    def attach_reply(self, head: np.void) -> bytes:
        reply = np.zeros(1, abi.ATTACH_RDMA_REPLY)
        reply["attached"] = np.frombuffer(super().attach_reply(head), abi.ATTACH_REPLY)
        reply["endpoint"] = self.endpoint.describe()
        reply["region"], reply["rkey"] = self.region.doorbell, self.endpoint.region.rkey
        reply["detection_ms"] = self._limits.detection_ms
        return reply.tobytes()

    @property
    def markers(self) -> int:
        """Markers that were posted to it."""
        return self.endpoint.markers

    def mark_end_of_results(self) -> None:
        """The client waits for this marker, because its connection and its queue pair are not ordered."""
        self.endpoint.post_marker()

    @property
    def is_broken(self) -> bool:
        """Whether it can no longer be reached."""
        return self.endpoint.is_broken

    def _handler(self, message_type: int) -> str | None:
        return "_mirror" if message_type == MessageType.MIRROR else super()._handler(message_type)

    def _mirror(self, record: np.void, _descriptors: list[int]) -> bytes:
        self.endpoint.mirror(int(record["region"]), int(record["rkey"]))
        return record.tobytes()

    def _register(self, record: np.void, _descriptors: list[int]) -> bytes:
        start, length, access = (int(record[name]) for name in ("address", "length", "access"))
        if not 0 < length < MAX_ADDRESS or start + length > MAX_ADDRESS or not access or access & ~COLLECTIVE_ACCESS:
            raise Refused(Status.INVALID_REQUEST, "the bounds or rights of a region")
        if len(self._keys) >= min(self._limits.max_regions, MAX_REGIONS):
            raise NoResources("regions of a client")
        lkey, rkey = self._new_lkey(), int(record["lkey"])
        self._engine.register(self.index, lkey, start, length, access, REACHED_BY_RDMA)
        self.endpoint.enter(start, length, rkey, access)
        self._keys[lkey] = start, rkey
        record["lkey"] = lkey
        return record.tobytes()

    def _is_known(self, lkey: int) -> bool:
        return lkey in self._keys

    def _deregister(self, record: np.void, _descriptors: list[int]) -> bytes:
        lkey = int(record["lkey"])
        if lkey not in self._keys:
            raise Refused(Status.INVALID_REQUEST, f"no region {lkey:#x}")
        self._engine.deregister(self.index, lkey)
        self.endpoint.erase(*self._keys.pop(lkey))
        return record.tobytes()

    def _unused(self, kind: str, used: Container[int], limit: int) -> int:
        """The numbers are given in turn: connection and queue pair are not ordered, so a message about a destroyed
        queue may come when another one exists, which must have another number."""
        first = self._last_number[kind] + 1
        number = first_unused(((first + step) % limit for step in range(limit)), used)
        self._last_number[kind] = number
        return number

    def _create_cq(self, record: np.void, descriptors: list[int]) -> bytes:
        reply = super()._create_cq(record, descriptors)
        self.endpoint.open_completions(int(record["cq"]))
        return reply

    def _arrivals(self, _qp: int) -> int:
        return 0

    def _forget_regions(self) -> None:
        for lkey in list(self._keys):
            self._engine.deregister(self.index, lkey)
        self._keys.clear()

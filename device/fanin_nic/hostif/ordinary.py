"""The ordinary traffic of one client: its queue pairs, shared queues and regions, and the requests about them."""

from collections.abc import Callable

import numpy as np

from fanin_nic.hostif.mapping import ALL_ACCESS, MAX_ADDRESS, ControlRegion
from fanin_nic.hostif.ports import NoResources, OrdinaryQueuePair, OrdinaryRegion, Refused, TransportPort
from fanin_wire.abi import MessageType, Service, Status
from fanin_wire.verbs import Attribute as A
from fanin_wire.verbs import QueuePairState

MAX_DOMAIN = 0xFFFF
# The member of struct fanin_qp_attributes for each attribute
MEMBERS = {
    A.CUR_STATE: "cur_state",
    A.ACCESS_FLAGS: "access",
    A.PKEY_INDEX: "pkey_index",
    A.PORT: "port",
    A.QKEY: "qkey",
    A.AV: "destination",
    A.PATH_MTU: "path_mtu",
    A.TIMEOUT: "timeout",
    A.RETRY_CNT: "retry_count",
    A.RNR_RETRY: "rnr_retry",
    A.RQ_PSN: "receive_psn",
    A.MAX_QP_RD_ATOMIC: "most_reads",
    A.MIN_RNR_TIMER: "rnr_timer",
    A.SQ_PSN: "send_psn",
    A.MAX_DEST_RD_ATOMIC: "most_responses",
    A.DEST_QPN: "remote_qpn",
}


class SharedQueues:
    """The shared receive queues of client `index`."""

    def __init__(self, index: int, region: ControlRegion) -> None:
        self._index, self._region = index, region
        self._rows: dict[int, int] = {}  # in the transport, by their number here
        self._users: dict[int, int] = {}  # number of a shared queue, by that of a queue pair

    def create(self, port: TransportPort, record: np.void) -> bytes:
        """Make one, with an empty ring."""
        number = next((free for free in range(self._region.max_shared_queues) if free not in self._rows), None)
        if number is None:
            raise NoResources("shared receive queues of a client")
        ring = self._region.shared_ring(number)
        self._region.clear_ring(ring)
        self._rows[number] = port.create_shared(self._index, int(record["domain"]), ring)
        record["shared_queue"] = number
        return record.tobytes()

    def destroy(self, port: TransportPort, record: np.void) -> bytes:
        """End one that no queue pair uses. Raises Refused."""
        number = int(record["shared_queue"])
        if number not in self._rows or number in self._users.values():
            complaint = f"shared receive queue {number} does not exist or is in use"
            raise Refused(Status.INVALID_REQUEST, complaint)
        port.destroy_shared(self._rows.pop(number))
        return record.tobytes()

    def row_of(self, wanted: int) -> int | None:
        """The row of the shared queue in a request for a queue pair: 1 + its number; 0: none."""
        if wanted and wanted - 1 not in self._rows:
            raise Refused(Status.INVALID_REQUEST, f"no shared receive queue {wanted - 1}")
        return self._rows[wanted - 1] if wanted else None

    def attach(self, qp: int, wanted: int) -> None:
        """A queue pair was made with the shared queue of its request, if any."""
        if wanted:
            self._users[qp] = wanted - 1

    def detach(self, qp: int) -> None:
        """A queue pair was destroyed."""
        self._users.pop(qp, None)

    def close(self, port: TransportPort) -> None:
        """End all, after the queue pairs."""
        for row in self._rows.values():
            port.destroy_shared(row)


class OrdinaryClient:
    """Ordinary traffic of client `index`. has_cq: whether it has a completion queue."""

    def __init__(
        self,
        index: int,
        port: TransportPort | None,
        region: ControlRegion,
        has_cq: Callable[[int], bool],
        has_memory: bool,
    ) -> None:
        self._index, self._port, self._region = index, port, region
        self._has_cq, self._has_memory = has_cq, has_memory
        self._rows: dict[int, int] = {}  # of queue pairs in the transport, by their number here
        self._queues: dict[int, tuple[int, int]] = {}  # completion queues of queue pairs
        self._shared = SharedQueues(index, region)
        self._keys: set[int] = set()  # of regions of process memory

    def handler(self, message_type: int) -> Callable[[np.void], bytes] | None:
        """The method for requests of this type; None if they are not about ordinary traffic."""
        name = _HANDLERS.get(message_type)
        return getattr(self, name) if name else None

    def register(self, record: np.void, mapped: int | None) -> int:
        """The key of a new region for ordinary traffic. Raises Refused."""
        port = self._transport()
        start, length = int(record["address"]), int(record["length"])
        _require(int(record["domain"]) <= MAX_DOMAIN, "the protection domain of a region")
        _require(int(record["access"]) & ~ALL_ACCESS == 0, "the rights of a region")
        if mapped is None:
            _require(0 < length < MAX_ADDRESS and start + length < MAX_ADDRESS, "the bounds of a region")
            if not self._has_memory:
                raise Refused(Status.LOCAL_PROTECTION_ERROR, "the client has not passed its memory")
        region = OrdinaryRegion(start, length, int(record["access"]), int(record["domain"]), mapped)
        return port.register(self._index, region)

    def register_process(self, record: np.void) -> bytes:
        """Register memory of the process, which has no descriptor of its own."""
        key = self.register(record, None)
        self._keys.add(key)
        record["lkey"] = key
        return record.tobytes()

    @property
    def regions(self) -> int:
        """Number of regions of process memory."""
        return len(self._keys)

    def has_region(self, key: int) -> bool:
        """Whether a key is of a region of process memory."""
        return key in self._keys

    def deregister(self, key: int) -> None:
        """Forget a region; requests that use it fail."""
        self._transport().deregister(key)
        self._keys.discard(key)

    def open_completions(self, cq: int) -> None:
        """A completion queue was made."""
        if self._port is not None:
            self._port.open_completions(self._index, cq, self._region.completion_ring(cq))

    def close_completions(self, cq: int) -> None:
        """A completion queue was destroyed."""
        if self._port is not None:
            self._port.open_completions(self._index, cq, 0)

    def uses(self, cq: int) -> bool:
        """Whether a queue pair has its completions there."""
        return any(cq in queues for queues in self._queues.values())

    def _create(self, record: np.void) -> bytes:
        port, services = self._transport(), [int(service) for service in Service]
        queues = int(record["send_cq"]), int(record["receive_cq"])
        _require(all(map(self._has_cq, queues)), f"no completion queues {queues}")
        _require(int(record["service"]) in services, "the service of a queue pair")
        _require(int(record["domain"]) <= MAX_DOMAIN, "the protection domain of a queue pair")
        qp = next((number for number in range(self._region.max_ordinary_qp) if number not in self._rows), None)
        if qp is None:
            raise NoResources("queue pairs of a client")
        rings = self._region.ordinary_rings(qp)
        for ring in rings:
            self._region.clear_ring(ring)
        wanted = OrdinaryQueuePair(
            Service(int(record["service"])),
            int(record["domain"]),
            *queues,
            bool(record["all_signaled"]),
            *rings,
            self._shared.row_of(int(record["shared_queue"])),
        )
        self._rows[qp], record["qpn"] = port.create(self._index, wanted)
        self._shared.attach(qp, int(record["shared_queue"]))
        self._queues[qp] = queues
        record["qp"] = qp
        return record.tobytes()

    def _destroy(self, record: np.void) -> bytes:
        self._transport().destroy(self._row_of(record))
        del self._rows[int(record["qp"])], self._queues[int(record["qp"])]
        self._shared.detach(int(record["qp"]))
        return record.tobytes()

    def _create_shared(self, record: np.void) -> bytes:
        _require(int(record["domain"]) <= MAX_DOMAIN, "the protection domain of a shared receive queue")
        return self._shared.create(self._transport(), record)

    def _destroy_shared(self, record: np.void) -> bytes:
        return self._shared.destroy(self._transport(), record)

    def _modify(self, record: np.void) -> bytes:
        mask = int(record["mask"]) & ~A.STATE
        known = sum(MEMBERS)
        _require(mask & ~known == 0, f"attributes {mask & ~known:#x}")
        values = {int(bit): int(record[member]) for bit, member in MEMBERS.items() if mask & bit}
        self._transport().modify(self._row_of(record), int(record["state"]), values)
        if record["state"] == QueuePairState.RESET:  # unread requests go as well
            for ring in self._region.ordinary_rings(int(record["qp"])):
                self._region.empty_ring(ring)
        return record.tobytes()

    def _query(self, record: np.void) -> bytes:
        record["state"], values = self._transport().query(self._row_of(record))
        record["mask"] = 0
        for bit, value in values.items():
            record[MEMBERS[A(bit)]] = value
            record["mask"] |= bit
        return record.tobytes()

    def _row_of(self, record: np.void) -> int:
        row = self._rows.get(int(record["qp"]))
        if row is None:
            raise Refused(Status.INVALID_REQUEST, f"no queue pair {record['qp']} of ordinary traffic")
        return row

    def _transport(self) -> TransportPort:
        if self._port is None:
            raise Refused(Status.NOT_SUPPORTED, "the device has no ordinary traffic")
        return self._port

    def close(self) -> None:
        """End the queue pairs and their shared queues, then forget the regions of process memory."""
        for row in self._rows.values():
            self._transport().destroy(row)
        if self._port is not None:
            self._shared.close(self._port)
        for key in list(self._keys):
            self.deregister(key)


_HANDLERS = {
    MessageType.CREATE_ORDINARY_QP: "_create",
    MessageType.DESTROY_ORDINARY_QP: "_destroy",
    MessageType.MODIFY_ORDINARY_QP: "_modify",
    MessageType.QUERY_ORDINARY_QP: "_query",
    MessageType.CREATE_SHARED_QUEUE: "_create_shared",
    MessageType.DESTROY_SHARED_QUEUE: "_destroy_shared",
}


def _require(condition: bool, complaint: str) -> None:
    if not condition:
        raise Refused(Status.INVALID_REQUEST, complaint)

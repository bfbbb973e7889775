"""The shared receive queues of one client, by its numbers, and which of its queue pairs receive from them."""

import numpy as np

from fanin_nic.hostif.engine_port import NoResources, Refused
from fanin_nic.hostif.mapping import ControlRegion
from fanin_nic.hostif.transport_port import TransportPort
from fanin_wire.abi import Status


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
            raise Refused(Status["INVALID_REQUEST"], complaint)
        port.destroy_shared(self._rows.pop(number))
        return record.tobytes()

    def row_of(self, wanted: int) -> int | None:
        """The row of the shared queue in a request for a queue pair: 1 + its number; 0: none."""
        if wanted and wanted - 1 not in self._rows:
            raise Refused(Status["INVALID_REQUEST"], f"no shared receive queue {wanted - 1}")
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

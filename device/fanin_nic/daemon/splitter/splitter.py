"""The splitter as an object of Python: queues come and go, join and leave."""

from typing import NamedTuple

import numpy as np

from fanin_nic.daemon.splitter.merge import flush_queue, merge
from fanin_nic.daemon.splitter.tables import REQUEST, SPLIT_QUEUE, SPLITTER
from fanin_nic.hostif.mapping import CQ_BYTES, SQ_BYTES, record_view
from fanin_nic.native.compiled import compiled
from fanin_wire import abi

RING_BYTES = -(-(SQ_BYTES + CQ_BYTES) // 64) * 64


class LaneRings(NamedTuple):
    """Addresses of the rings between splitter and one lane, for one queue."""

    send: int
    completion: int


@compiled
def merge_now(address):
    """`merge`, for Python."""
    merge(address)


class Splitter:
    """Splits requests for `lanes` lanes and merges their completions, in methods that need all lanes to stand still.
    `state`: address of its record. doorbells: LANE_DOORBELL of each lane."""

    def __init__(self, lanes: int, queues: int, doorbells: np.ndarray) -> None:
        self._record = np.zeros(1, SPLITTER)
        self.queues = np.zeros(queues, SPLIT_QUEUE)
        self._doorbells = doorbells
        self._memory: dict[int, np.ndarray] = {}
        self._record["lanes"] = lanes
        self._record["queue_table"] = self.queues.ctypes.data
        self._record["doorbell_table"] = doorbells.ctypes.data
        self.state = int(self._record.ctypes.data)

    def open(self, queue: int, qp: int, send_ring: int, completion_ring: int) -> list[LaneRings]:
        """Serve a client's queue pair number `qp`; returns the rings for each lane."""
        lanes = int(self._record["lanes"][0])
        memory = np.zeros(lanes * RING_BYTES + 64, np.uint8)
        start = memory.ctypes.data + -memory.ctypes.data % 64
        rings = [LaneRings(place, place + SQ_BYTES) for place in range(start, start + lanes * RING_BYTES, RING_BYTES)]
        record = self.queues[queue : queue + 1]
        record[:] = np.zeros(1, SPLIT_QUEUE)
        record["send_ring"], record["completion_ring"], record["qp"] = send_ring, completion_ring, qp
        for member in LaneRings._fields:
            record[f"lane_{member}_ring"][0, :lanes] = [getattr(ring, member) for ring in rings]
        self._memory[queue] = memory
        self._count_queues()
        return rings

    def close(self, queue: int) -> None:
        self.queues[queue] = np.zeros(1, SPLIT_QUEUE)[0]
        self._memory.pop(queue, None)
        self._count_queues()

    def _count_queues(self) -> None:
        self._record["queues"] = max(self._memory, default=-1) + 1

    def join(self, queue: int, lane_slots: list[int]) -> int:
        """Start the stream of a queue in its job; returns the number of slots for the client."""
        slots = min(lane_slots)
        record = self.queues[queue]
        record["slots"], record["position"], record["overrun"] = slots, 0, 0
        record["lane_slots"][: len(lane_slots)] = lane_slots
        record["lane_position"][:] = 0
        return slots

    def merge(self) -> None:
        """Complete the requests that the lanes have completed."""
        merge_now(self.state)

    def flush(self, queue: int) -> None:
        """Complete the unfinished requests of a queue as FLUSHED, after its lanes have flushed their parts."""
        flush_queue(self.state, queue)

    def leave(self, queue: int) -> None:
        """End the stream of a queue that has left its job. Unfinished requests are dropped."""
        record = self.queues[queue]
        record["slots"] = record["overrun"] = 0
        record["head"] = record["given"] = record["tail"]
        record["query"] = np.zeros(1, REQUEST)[0]
        for ring in (*record["lane_send_ring"], *record["lane_completion_ring"]):
            if ring:
                record_view(int(ring), abi.RING)[:] = 0

    def take_overruns(self) -> list[int]:
        """Queues whose completion ring has overrun since they joined; none without a new one since the last call."""
        if not self._record["overruns"][0]:
            return []
        self._record["overruns"] = 0
        return [int(queue) for queue in np.flatnonzero(self.queues["overrun"])]

    @property
    def cq_overflows(self) -> int:
        """Completions without room in a client's ring."""
        return int(self._record["cq_overflows"][0])

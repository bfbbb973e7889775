"""The tables of the splitter: which queues it serves, where their lanes stand, and the requests that are under way."""

from __future__ import annotations

import numpy as np
from numba import uint64

from fanin_nic.daemon.lanes.bell import BELL
from fanin_nic.native.compiled import compiled
from fanin_nic.native.memory import record_at
from fanin_wire import abi

MAX_LANES = 16
UNDER_WAY = abi.SQ_DEPTH  # requests of one queue, so that no ring of a lane can overflow

SPLITTER = np.dtype(
    [
        ("lanes", "u4"),
        ("queues", "u4"),  # 1 + the highest queue in use
        ("failures", "u4"),  # queues that have `failed` set
        ("reserved", "u4"),
        ("cq_overflows", "u8"),
        ("queue_table", "u8"),  # address of SPLIT_QUEUE [queues of an engine]
        ("bell_table", "u8"),  # address of BELL [lanes]
        ("wqe", abi.WQE),
        ("cqe", abi.CQE),
    ],
    align=True,
)
WQE_SCRATCH = np.uint64(SPLITTER.fields["wqe"][1])  # type: ignore[index]
CQE_SCRATCH = np.uint64(SPLITTER.fields["cqe"][1])  # type: ignore[index]

# A client's request whose parts are with the lanes.
REQUEST = np.dtype(
    [
        ("wr_id", "u8"),
        ("byte_length", "u8"),  # of the parts that are complete
        ("missing", "u8"),
        ("positions", "u4"),
        ("jid", "u4"),
        ("mid", "u4"),
        ("parts", "u4"),  # still with the lanes
        ("status", "u1"),  # of the part that failed first
        ("missing_kind", "u1"),
        ("opcode", "u1"),
        ("signaled", "u1"),
    ],
    align=True,
)

SPLIT_QUEUE = np.dtype(
    [
        ("send_ring", "u8"),  # address of the client's; 0: no queue
        ("completion_ring", "u8"),
        ("qp", "u4"),
        ("failed", "u4"),  # 1: a part has failed; what ended its job is not yet known to all lanes
        ("slots", "u4"),  # N as the client knows it; 0: not in a job
        ("chunk", "u4"),
        ("position", "u4"),  # of the client's next segment
        ("head", "u4"),  # number of the oldest request under way
        ("tail", "u4"),
        ("reserved", "u4"),
        ("lane_send_ring", "u8", (MAX_LANES,)),  # addresses, as for a client, but within this process
        ("lane_completion_ring", "u8", (MAX_LANES,)),
        ("lane_slots", "u4", (MAX_LANES,)),  # N of each lane
        ("lane_position", "u4", (MAX_LANES,)),  # of each lane's next segment
        ("requests", REQUEST, (UNDER_WAY,)),
    ],
    align=True,
)
_SCALARS = [name for name in (SPLIT_QUEUE.names or ()) if name != "requests"]
REQUESTS = np.uint64(SPLIT_QUEUE.fields["requests"][1])  # type: ignore[index]
QUEUE_SIZE = np.uint64(SPLIT_QUEUE.itemsize)
REQUEST_SIZE = np.uint64(REQUEST.itemsize)
BELL_SIZE = np.uint64(BELL.itemsize)

splitter_at = record_at(SPLITTER[["lanes", "queues", "failures", "cq_overflows", "queue_table", "bell_table"]])
split_queue_at = record_at(SPLIT_QUEUE[_SCALARS])
request_at = record_at(REQUEST)


@compiled
def queue_address(splitter, index):
    """Address of the SPLIT_QUEUE `index`."""
    return splitter.queue_table + uint64(index) * QUEUE_SIZE


@compiled
def request_address(queue_place, number):
    """Address of the REQUEST with a free-running number, of the SPLIT_QUEUE at `queue_place`."""
    return queue_place + REQUESTS + (uint64(number) % uint64(UNDER_WAY)) * REQUEST_SIZE

"""The tables of a client over RDMA, for the compiled loop."""

import numpy as np

from fanin_nic.engine.records.actions import ACTION, READ_BYTES
from fanin_nic.native.memory import record_at
from fanin_nic.port.verbs.records import COMPLETION, PIECE, SEND_REQUEST
from fanin_wire import abi

SEND_DEPTH = 256  # requests that the queue pair holds
RECEIVE_DEPTH = 512
READ_SLOTS = 32  # READs in flight, of READ_BYTES each
MAX_WAITING_READS = 64 * abi.MAX_ADDRESSES  # all that one client's queues can begin at once
MAX_WRITE = 65536  # bytes of one WRITE
WRITE_BYTES = 2 << 20  # staging memory of WRITEs
REAPED = 32  # completions of one poll
MAX_REGIONS = 256

# The client's registered memory
REMOTE_REGION = np.dtype([("start", "u8"), ("length", "u8"), ("key", "u4"), ("access", "u4")])

# Members named like tables are addresses of arrays
REMOTE = np.dtype(
    [
        ("queue_pair", "u8"),  # address of the struct ibv_qp
        ("completion_queue", "u8"),  # of sends and of receives
        ("channel", "u8"),
        ("poll", "u8"),  # addresses of the functions
        ("request_event", "u8"),
        ("post_send", "u8"),
        ("post_receive", "u8"),
        ("take_event", "u8"),
        ("acknowledge", "u8"),
        ("region", "u8"),  # the control region here
        ("host_region", "u8"),  # and its copy in the client
        ("write_staging", "u8"),  # bytes [WRITE_BYTES]: results in flight
        ("read_staging", "u8"),  # bytes [READ_SLOTS, READ_BYTES]: data that came
        ("regions", "u8"),  # REMOTE_REGION [MAX_REGIONS]
        ("reads", "u8"),  # ACTION [READ_SLOTS]: READs in flight
        ("waiting", "u8"),  # ACTION [MAX_WAITING_READS], a ring: READs that wait for a slot
        ("sent", "u8"),  # u4 by completion queue: completions sent on, mod 2^32
        ("written", "u8"),  # bytes ever taken from `write_staging` ...
        ("freed", "u8"),  # ... and given back
        ("free_reads", "u8"),  # bitmap of READ_SLOTS
        ("done_reads", "u8"),  # bitmap: READs whose data came
        ("patience", "u8"),  # ns to wait for room before the client is lost
        ("region_key", "u4"),  # local keys
        ("staging_key", "u4"),
        ("host_key", "u4"),  # remote key of `host_region`
        ("region_count", "u4"),
        ("waiting_head", "u4"),
        ("waiting_tail", "u4"),
        ("posted", "u4"),  # requests held by the queue pair
        ("asked_event", "u4"),  # 1: an event was asked for since the channel was emptied
        ("broken", "u4"),  # 1: the queue pair has failed; drop the client
        ("status", "u4"),  # of the failed completion, or errno
        ("sq_offset", "u4"),
        ("sq_stride", "u4"),
        ("cq_offset", "u4"),
        ("cq_stride", "u4"),
        ("max_qp", "u4"),
        ("cq_end", "u4"),  # 1 + highest completion queue in use
        ("request", SEND_REQUEST),
        ("piece", PIECE),
        ("completions", COMPLETION, (REAPED,)),
    ],
    align=True,
)

_SCALARS = [name for name in REMOTE.names or () if name not in ("request", "piece", "completions")]
REQUEST, PIECE_PLACE, COMPLETIONS = (
    np.uint64(REMOTE.fields[name][1])  # type: ignore[index]
    for name in ("request", "piece", "completions")
)
READ_STAGING_BYTES = READ_SLOTS * READ_BYTES
ALL_SLOTS = (1 << READ_SLOTS) - 1
ACTION_BYTES = ACTION.itemsize

# struct ibv_send_wr for RDMA: `number` to `flags` as in SEND_REQUEST
RDMA_REQUEST = np.dtype(
    {
        "names": ["number", "next", "pieces", "piece_count", "opcode", "flags", "immediate", "address", "key"],
        "formats": ["u8", "u8", "u8", "i4", "i4", "u4", "u4", "u8", "u4"],
        "offsets": [0, 8, 16, 24, 28, 32, 36, 40, 48],
        "itemsize": 128,
    }
)

remote_at = record_at(REMOTE[_SCALARS])

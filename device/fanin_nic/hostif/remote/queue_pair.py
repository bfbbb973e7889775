"""The queue pair of a client over RDMA, in compiled code: its tables, requests to it, and its completions.

Requests of a queue pair are performed in order. Any failure breaks it (`broken`): nothing more is posted, and the
client is dropped.
"""

import numpy as np
from numba import int64, uint32, uint64

from fanin_nic.engine.records.actions import ACTION, READ_BYTES
from fanin_nic.hostif.rings import PRODUCER, SQ_DEPTH
from fanin_nic.native.compiled import compiled
from fanin_nic.native.libc import monotonic_ns, poll, stack_bytes
from fanin_nic.native.memory import (
    address_of,
    call_library,
    load_be32,
    load_u32,
    load_u64,
    record_at,
    store_be32,
    store_release,
)
from fanin_nic.port.verbs.records import COMPLETION, RECEIVE_REQUEST, SEND_REQUEST, SGE, SIGNALED
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
        ("sge", SGE),
        ("completions", COMPLETION, (REAPED,)),
    ],
    align=True,
)
_SCALARS = [name for name in REMOTE.names or () if name not in ("request", "sge", "completions")]
REQUEST, SGE_PLACE, COMPLETIONS = (
    np.uint64(REMOTE.fields[name][1])  # type: ignore[index]
    for name in ("request", "sge", "completions")
)
READ_STAGING_BYTES = READ_SLOTS * READ_BYTES
ALL_SLOTS = (1 << READ_SLOTS) - 1
ACTION_BYTES = ACTION.itemsize

# struct ibv_send_wr for RDMA: `number` to `flags` as in SEND_REQUEST
RDMA_REQUEST = np.dtype(
    {
        "names": ["number", "next", "sges", "sge_count", "opcode", "flags", "immediate", "address", "key"],
        "formats": ["u8", "u8", "u8", "i4", "i4", "u4", "u4", "u8", "u4"],
        "offsets": [0, 8, 16, 24, 28, 32, 36, 40, 48],
        "itemsize": 128,
    }
)
remote_at = record_at(REMOTE[_SCALARS])
request_at = record_at(RDMA_REQUEST)
sge_at = record_at(SGE)
completion_at = record_at(COMPLETION)
receive_at = record_at(RECEIVE_REQUEST)
WRITE, WRITE_WITH_IMMEDIATE, READ = 0, 1, 4  # enum ibv_wr_opcode
IMMEDIATE = uint64(RDMA_REQUEST.fields["immediate"][1])  # type: ignore[index]
COMPLETION_IMMEDIATE = uint64(COMPLETION.fields["immediate"][1])  # type: ignore[index]
COMPLETION_SIZE = uint64(COMPLETION.itemsize)
RECEIVE_BYTES = RECEIVE_REQUEST.itemsize

# Upper half of a request's number: its kind; lower half: an amount
WRITTEN, HAS_READ, RECEIVED = uint64(0), uint64(1), uint64(2)
KIND = uint64(32)
LOW = uint64(0xFFFF_FFFF)
HALF_WORD = uint32(0xFFFF)
ONE = uint64(1)


@compiled
def fail(remote, status):
    """The queue pair is of no more use."""
    remote.broken = 1
    remote.status = status


@compiled
def post(remote, opcode, number, local, length, local_key, address, key, immediate):
    """Post one request; all are signaled. False: the queue pair is broken."""
    if not await_room(remote):
        return False
    request, sge = request_at(address_of(remote) + REQUEST), sge_at(address_of(remote) + SGE_PLACE)
    sge.address, sge.length, sge.key = local, length, local_key
    request.number, request.next = number, 0
    request.sges, request.sge_count = address_of(remote) + SGE_PLACE, 1 if length else 0
    request.opcode, request.flags = opcode, SIGNALED
    request.address, request.key = address, key
    store_be32(address_of(request) + IMMEDIATE, uint32(immediate))
    refused = call_library(remote.post_send, remote.queue_pair, address_of(request), stack_bytes(8))
    if refused:
        fail(remote, refused)
        return False
    remote.posted += 1
    return True


@compiled
def await_room(remote):
    """Wait until the queue pair takes another request. A client that keeps it full for long is lost."""
    until = uint64(0)
    while not remote.broken and remote.posted >= SEND_DEPTH:
        until = poll_or_sleep(remote, until)
    return not remote.broken


@compiled
def poll_or_sleep(remote, until):
    """Take completions; if there are none, sleep a little. until: result of the last call, first 0. After `patience`
    the queue pair counts as broken."""
    if reap(remote):
        return uint64(0)
    now = uint64(monotonic_ns())
    if not until:
        return now + remote.patience
    if now >= until:
        fail(remote, uint32(0))
    poll(uint64(0), uint64(0), 1)
    return until


@compiled
def reap(remote):
    """Take completions of requests, and messages of the client; returns their number."""
    if remote.broken:
        return int64(0)
    place = address_of(remote) + COMPLETIONS
    found = int64(call_library(remote.poll, remote.completion_queue, uint64(REAPED), place))
    if found < 0:
        fail(remote, -found)
        return int64(0)
    for index in range(found):
        address = place + uint64(index) * COMPLETION_SIZE
        completion = completion_at(address)
        if completion.status:
            fail(remote, completion.status)
            return int64(0)
        kind, amount = completion.number >> KIND, completion.number & LOW
        if kind == RECEIVED:
            take_message(remote, load_be32(address + COMPLETION_IMMEDIATE))
            continue
        remote.posted -= 1
        if kind == HAS_READ:
            remote.done_reads |= ONE << amount
        else:
            remote.freed += amount
    return found


@compiled
def take_message(remote, immediate):
    """A client has written requests: `immediate` is the queue pair in the upper half, their number in the lower. Only
    now are they in the ring for sure; 0 just wakes. The message's buffer goes back."""
    queue_pair, count = uint64(immediate >> uint32(16)), uint32(immediate & HALF_WORD)
    if queue_pair < uint64(remote.max_qp) and count and count <= SQ_DEPTH:
        ring = remote.region + uint64(remote.sq_offset) + queue_pair * uint64(remote.sq_stride)
        store_release(ring + PRODUCER, uint32(load_u32(ring + PRODUCER) + count))
    request = receive_at(stack_bytes(RECEIVE_BYTES))
    request.number, request.next, request.sges, request.sge_count = RECEIVED << KIND, 0, 0, 0
    refused = call_library(remote.post_receive, remote.queue_pair, address_of(request), stack_bytes(8))
    if refused:
        fail(remote, refused)


@compiled
def drain_requests(address):
    """Wait until all requests of a client are complete, so that none reaches memory that it has taken back."""
    remote, until = remote_at(uint64(address)), uint64(0)
    while not remote.broken and remote.posted:
        until = poll_or_sleep(remote, until)


@compiled
def ask_for_event(remote):
    """Ask for an event of the next completion before sleep; returns whether there is work already."""
    if remote.broken:
        return False
    if remote.asked_event:
        queue, context = stack_bytes(8), stack_bytes(8)
        while call_library(remote.take_event, remote.channel, queue, context) == 0:
            call_library(remote.acknowledge, load_u64(queue), uint64(1), uint64(0))
    remote.asked_event = 1
    call_library(remote.request_event, remote.completion_queue, uint64(0), uint64(0))
    return reap(remote) > 0 or remote.done_reads != 0 or remote.broken != 0

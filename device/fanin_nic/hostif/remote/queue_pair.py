"""Posting to the queue pair of a client over RDMA, and its completions, in compiled code.

Requests of a queue pair are performed in order. Any failure breaks it (`broken`): nothing more is posted, and the
client is dropped.
"""

from numba import int64, uint32, uint64

from fanin_nic.hostif.remote.records import (
    COMPLETIONS,
    PIECE_PLACE,
    RDMA_REQUEST,
    REAPED,
    REQUEST,
    SEND_DEPTH,
    remote_at,
)
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
from fanin_nic.port.verbs.records import COMPLETION, PIECE, RECEIVE_REQUEST, SIGNALED

request_at = record_at(RDMA_REQUEST)
piece_at = record_at(PIECE)
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
    request, piece = request_at(address_of(remote) + REQUEST), piece_at(address_of(remote) + PIECE_PLACE)
    piece.address, piece.length, piece.key = local, length, local_key
    request.number, request.next = number, 0
    request.pieces, request.piece_count = address_of(remote) + PIECE_PLACE, 1 if length else 0
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
    request.number, request.next, request.pieces, request.piece_count = RECEIVED << KIND, 0, 0, 0
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

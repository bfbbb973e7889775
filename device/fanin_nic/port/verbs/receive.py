"""Reception from a verbs device: completions become the messages that `port.receive` checks."""

from __future__ import annotations

from numba import int64, uint32, uint64

from fanin_nic.native.compiled import compiled
from fanin_nic.native.libc import IOVEC, MMSGHDR, stack_bytes
from fanin_nic.native.memory import call_library, load_be32, record_at, store_be32
from fanin_nic.port.descriptors import DESTINATION, PEER, SOCKET_ADDRESS
from fanin_nic.port.peers import known_peer
from fanin_nic.port.verbs.records import (
    COMPLETION,
    GRH_BYTES,
    GRH_DESTINATION,
    GRH_SOURCE,
    RECEIVE_REQUEST,
    verbs_at,
)
from fanin_nic.port.verbs.wake import fail, handle_of, is_broken, is_wanted, queue_pair_of, want

message_at = record_at(MMSGHDR)
iovec_at = record_at(IOVEC)
completion_at = record_at(COMPLETION)
request_at = record_at(RECEIVE_REQUEST)
destination_at = record_at(DESTINATION)

MESSAGE_SIZE, COMPLETION_SIZE, REQUEST_SIZE = MMSGHDR.itemsize, COMPLETION.itemsize, RECEIVE_REQUEST.itemsize
SOURCE_ADDRESS = SOCKET_ADDRESS.fields["address"][1]  # type: ignore[index]
PEER_SIZE, DESTINATION_SIZE = PEER.itemsize, DESTINATION.itemsize


@compiled
def _completion(verbs, index):
    return verbs.completions + uint64(index) * uint64(COMPLETION_SIZE)


@compiled
def take_completions(port, limit):
    """Enter datagrams that have arrived as messages of the port, up to `limit` in all. The buffers of those of the last
    call go back to the device first."""
    verbs = verbs_at(port.verbs)
    if is_broken(verbs):
        return
    give_back(verbs)
    if is_broken(verbs):
        return
    found = int64(verbs.waiting)
    verbs.waiting = 0
    if found < limit:
        more = int64(call_library(verbs.poll, verbs.receive_queue, uint64(limit - found), _completion(verbs, found)))
        if more < 0:
            fail(verbs, -more)
            return
        found += more
    verbs.received = found
    for index in range(found):
        completion = completion_at(_completion(verbs, index))
        if completion.status or completion.length < GRH_BYTES:
            fail(verbs, completion.status)
            return
        _enter(port, verbs, index, completion)
    port.receive_used = found


@compiled
def _enter(port, verbs, index, completion):
    """Make a message of a datagram."""
    message = message_at(port.receive_message_table + uint64(index) * uint64(MESSAGE_SIZE))
    buffer = verbs.receive_buffers + completion.number * uint64(verbs.receive_size)
    piece = iovec_at(message.iov)
    piece.base = buffer + uint64(GRH_BYTES)
    message.length = completion.length - uint32(GRH_BYTES)
    message.control_length = 0
    source = load_be32(buffer + uint64(GRH_SOURCE))
    store_be32(message.name + uint64(SOURCE_ADDRESS), source)
    _check_sender(port, verbs, source, completion.source)


@compiled
def is_to_group(port, message):
    """Whether a datagram was sent to the group of the port: by the address in its IP header, before the datagram."""
    header = iovec_at(message.iov).base - uint64(GRH_BYTES)
    return port.group != 0 and load_be32(header + uint64(GRH_DESTINATION)) == port.group


@compiled
def _check_sender(port, verbs, source, queue_pair):
    """Ask for the sender's queue pair again if it is not the one that is known: the sender was started anew. A sender
    whose packet is not checked yet gets no row."""
    place = known_peer(port.peer_table, source)
    if place == 0:
        return
    row = (place - port.peer_table) // uint64(PEER_SIZE)
    destination = destination_at(verbs.destinations + row * uint64(DESTINATION_SIZE))
    if handle_of(destination) and queue_pair_of(destination) != queue_pair and not is_wanted(destination):
        want(verbs, destination)


@compiled
def give_back(verbs):
    """Post the buffers of the last call again, as one chain."""
    count = int64(verbs.received)
    verbs.received = 0
    if count == 0:
        return
    first = after = uint64(0)
    for index in range(count):
        completion = completion_at(_completion(verbs, count - 1 - index))
        first = verbs.receive_requests + completion.number * uint64(REQUEST_SIZE)
        request_at(first).next = after
        after = first
    bad = stack_bytes(8)
    reason = call_library(verbs.post_receive, verbs.queue_pair, first, bad)
    if reason:
        fail(verbs, reason)

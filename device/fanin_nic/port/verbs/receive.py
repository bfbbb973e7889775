"""Reception from a verbs device: completions become the messages of `port.receive`."""

from numba import int64, uint32, uint64

from fanin_nic.native.compiled import compiled
from fanin_nic.native.libc import IOVEC, MMSGHDR, stack_bytes
from fanin_nic.native.memory import call_library, load_be16, load_be32, record_at, store_be16, store_be32
from fanin_nic.port.descriptors import DESTINATION, PEER, SOCKET_ADDRESS
from fanin_nic.port.tables import known_peer
from fanin_nic.port.verbs.frames import ACCEPTED, check_frame, datagram_size
from fanin_nic.port.verbs.frames import SOURCE_PORT as FRAME_SOURCE_PORT
from fanin_nic.port.verbs.records import COMPLETION, GRH_BYTES, RECEIVE_REQUEST, verbs_at
from fanin_nic.port.verbs.wake import fail, handle_of, is_broken, is_wanted, queue_pair_of, want

message_at = record_at(MMSGHDR)
iovec_at = record_at(IOVEC)
completion_at = record_at(COMPLETION)
request_at = record_at(RECEIVE_REQUEST)
destination_at = record_at(DESTINATION)

MESSAGE_SIZE, COMPLETION_SIZE, REQUEST_SIZE = MMSGHDR.itemsize, COMPLETION.itemsize, RECEIVE_REQUEST.itemsize
SOURCE_PORT = SOCKET_ADDRESS.fields["port"][1]  # type: ignore[index]
SOURCE_ADDRESS = SOCKET_ADDRESS.fields["address"][1]  # type: ignore[index]
PEER_SIZE, DESTINATION_SIZE = PEER.itemsize, DESTINATION.itemsize


@compiled
def _completion(verbs, index):
    return verbs.completions + uint64(index) * uint64(COMPLETION_SIZE)


@compiled
def take_completions(port, limit):
    """Give back the buffers of the last call, then enter datagrams as messages of the port, up to `limit` in all."""
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
    entered = int64(0)
    for index in range(found):
        completion = completion_at(_completion(verbs, index))
        if completion.status or (not verbs.own_mac and completion.length < GRH_BYTES):
            fail(verbs, completion.status)
            return
        if verbs.own_mac:
            entered += _enter_frame(port, verbs, entered, completion)
        else:
            _enter_datagram(port, verbs, entered, completion)
            entered += 1
    port.receive_used = entered


@compiled
def _buffer(verbs, completion):
    return verbs.receive_buffers + completion.number * uint64(verbs.receive_size)


@compiled
def _enter(port, index, source, packet, size):
    """Returns the message of a packet of `size` bytes."""
    message = message_at(port.receive_message_table + uint64(index) * uint64(MESSAGE_SIZE))
    iovec_at(message.iov).base = packet
    message.length = uint32(size)
    message.control_length = 0
    store_be32(message.name + uint64(SOURCE_ADDRESS), source)
    return message


@compiled
def _enter_datagram(port, verbs, index, completion):
    """A datagram of a UD queue pair."""
    buffer = _buffer(verbs, completion)
    source = load_be32(buffer + uint64(verbs.received_source))
    _enter(port, index, source, buffer + uint64(GRH_BYTES), completion.length - uint32(GRH_BYTES))
    _check_sender(port, verbs, source, completion.source)


@compiled
def _enter_frame(port, verbs, index, completion):
    """A frame of a RAW_PACKET queue pair becomes a message, or is dropped; returns the number of messages."""
    frame = _buffer(verbs, completion)
    verdict = check_frame(frame, int64(completion.length), verbs.own_mac, port.address, port.group)
    if verdict != ACCEPTED:
        port.dropped[verdict] += 1
        return int64(0)
    source = load_be32(frame + uint64(verbs.received_source))
    message = _enter(port, index, source, frame + uint64(verbs.receive_header), datagram_size(frame))
    store_be16(message.name + uint64(SOURCE_PORT), load_be16(frame + uint64(FRAME_SOURCE_PORT)))
    return int64(1)


@compiled
def is_to_group(port, message):
    """Whether a datagram was sent to the port's group, by the IP header before it."""
    verbs = verbs_at(port.verbs)
    header = iovec_at(message.iov).base - uint64(verbs.receive_header)
    return port.group != 0 and load_be32(header + uint64(verbs.received_destination)) == port.group


@compiled
def _check_sender(port, verbs, source, queue_pair):
    """Ask for the sender's queue pair again if it differs from the known one: the sender was restarted. A sender gets
    no row before its packet is checked."""
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

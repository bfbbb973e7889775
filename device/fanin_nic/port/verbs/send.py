"""Transmission by a verbs device: each packet of a super-packet is copied into a buffer of the send ring, and all
requests of a batch are posted as one chain.

`sendmmsg` makes this copy too: the engine may use its memory again when `transmit` returns. Record 0072: why packets
are copied, and why libibverbs is called by offsets.
"""

from errno import EIO, ENOBUFS, ENOTCONN

from numba import int64, uint32, uint64

from fanin_nic.native.compiled import compiled
from fanin_nic.native.libc import IOVEC, MMSGHDR, poll, stack_bytes
from fanin_nic.native.memory import call_library, copy, record_at
from fanin_nic.native.profile import Stage, lap
from fanin_nic.port.descriptors import DESTINATION, PEER, SEND_MESSAGE, Drop
from fanin_nic.port.mirror import mirror_sent
from fanin_nic.port.tables import count_failed, count_sent
from fanin_nic.port.verbs.frames import HEADERS_SIZE, write_headers
from fanin_nic.port.verbs.records import COMPLETION, SEND_REQUEST, SGE, SIGNALED, verbs_at
from fanin_nic.port.verbs.wake import fail, handle_of, is_broken, queue_pair_of, want

message_at = record_at(SEND_MESSAGE)
mmsghdr_at = record_at(MMSGHDR)
iovec_at = record_at(IOVEC)
request_at = record_at(SEND_REQUEST)
sge_at = record_at(SGE)
completion_at = record_at(COMPLETION)
destination_at = record_at(DESTINATION)

MESSAGE_SIZE, MMSGHDR_SIZE, IOVEC_SIZE = SEND_MESSAGE.itemsize, MMSGHDR.itemsize, IOVEC.itemsize
REQUEST_SIZE, SGE_SIZE, COMPLETION_SIZE = SEND_REQUEST.itemsize, SGE.itemsize, COMPLETION.itemsize
PEER_SIZE, DESTINATION_SIZE = PEER.itemsize, DESTINATION.itemsize
SENT = -1  # in place of a Drop

COMPLETIONS = 16  # of one poll
COMPLETIONS_BYTES = COMPLETIONS * COMPLETION_SIZE
FULL_QUEUE_WAITS = 20  # in one call of `transmit`, each
FULL_QUEUE_WAIT_MS = 1


@compiled
def post_batch(port, messages, headers, filled):
    """Give `filled` super-packets to the device; returns the number of packets sent. messages, headers: their
    SEND_MESSAGE and MMSGHDR tables."""
    verbs, sent = verbs_at(port.verbs), int64(0)
    for index in range(filled):
        message = messages + uint64(index) * uint64(MESSAGE_SIZE)
        sent += _chain(port, verbs, message, headers + uint64(index) * uint64(MMSGHDR_SIZE))
    sent -= _post_chain(port, verbs)
    if filled:
        lap(port.profile, Stage.SEND)
    return sent


@compiled
def _chain(port, verbs, message_address, mmsghdr_address):
    """Append the packets of one super-packet to the chain; returns their number."""
    message, mmsghdr = message_at(message_address), mmsghdr_at(mmsghdr_address)
    count = int64(message.packets)
    destination = destination_at(
        verbs.destinations + (message.peer - port.peer_table) // uint64(PEER_SIZE) * uint64(DESTINATION_SIZE)
    )
    if is_broken(verbs):
        _drop(port, message_address, mmsghdr_address, Drop.SEND_ERROR, EIO)
        return int64(0)
    if not handle_of(destination):
        want(verbs, destination)
        _drop(port, message_address, mmsghdr_address, Drop.UNRESOLVED, ENOTCONN)
        return int64(0)
    sent = int64(0)
    if int64(verbs.send_free) < count:
        sent -= _post_chain(port, verbs)
        if not _await_room(port, verbs, count):
            _drop(port, message_address, mmsghdr_address, Drop.QUEUE_FULL, ENOBUFS)
            return sent
    if port.tap:
        mirror_sent(port, message_address, mmsghdr_address, SENT)
    _copy_packets(port, verbs, message, mmsghdr, destination)
    return sent + count_sent(message)


@compiled
def _drop(port, message, mmsghdr, drop, reason):
    port.dropped[drop] += message_at(message).packets
    count_failed(message_at(message).peer, message_at(message).packets, reason)
    if port.tap:
        mirror_sent(port, message, mmsghdr, drop)


@compiled
def _row(verbs, row):
    """A row of the requests, with wrap-around."""
    return row - int64(verbs.send_depth) if row >= int64(verbs.send_depth) else row


@compiled
def _request(verbs, row):
    return verbs.send_requests + uint64(row) * uint64(REQUEST_SIZE)


@compiled
def _copy_packets(port, verbs, message, mmsghdr, destination):
    """Fill the next requests, and their buffers, with the packets of a super-packet."""
    count, left = int64(message.packets), int64(message.length)
    piece, used = uint64(mmsghdr.iov), uint64(0)
    handle, queue_pair = handle_of(destination), queue_pair_of(destination)
    for place in range(count):
        row = int64(verbs.send_next)
        request, target = request_at(_request(verbs, row)), sge_at(verbs.send_sges + uint64(row * SGE_SIZE))
        size = min(int64(message.segment_size), left)
        left -= size
        start, length = target.address, size
        if verbs.own_mac:
            length = write_headers(
                start, verbs.own_mac, handle, port.address, message.destination, port.source_port, size, place
            )
            start += uint64(HEADERS_SIZE)
        written = uint64(0)
        while written < uint64(size):
            source = iovec_at(piece)
            part = min(uint64(source.length) - used, uint64(size) - written)
            copy(start + written, uint64(source.base) + used, part)
            written += part
            used += part
            if used == uint64(source.length):
                piece, used = piece + uint64(IOVEC_SIZE), uint64(0)
        target.length = length
        request.handle, request.queue_pair = handle, queue_pair
        verbs.send_next = _row(verbs, row + 1)
        request.next, request.flags = _request(verbs, verbs.send_next), 0
    verbs.chained += uint32(count)
    verbs.send_free -= uint32(count)


@compiled
def _post_chain(port, verbs):
    """Post the chain; returns how many packets the device refused, which are dropped. The last request is signaled; its
    number says how many requests it completes. There is room for all: a device that refuses one has failed, and which
    it holds is unknown."""
    count, depth = int64(verbs.chained), int64(verbs.send_depth)
    if count == 0:
        return int64(0)
    first = _row(verbs, int64(verbs.send_next) + depth - count)
    last = request_at(_request(verbs, _row(verbs, first + count - 1)))
    last.next, last.flags = 0, SIGNALED
    last.number = uint64(count)
    verbs.chained = 0
    reason = call_library(verbs.post_send, verbs.queue_pair, _request(verbs, first), stack_bytes(8))
    if not reason:
        return int64(0)
    port.last_error = reason
    port.dropped[Drop.SEND_ERROR] += uint64(count)
    fail(verbs, reason)
    return count


@compiled
def _await_room(port, verbs, count):
    """Take completions of sends until `count` requests are free, or for a while; returns whether they are."""
    while not is_broken(verbs) and not reclaim(verbs, count):
        if port.send_waits >= FULL_QUEUE_WAITS:
            return False
        port.send_waits += 1
        poll(uint64(0), uint64(0), FULL_QUEUE_WAIT_MS)
    return not is_broken(verbs)


@compiled
def reclaim(verbs, count):
    """Take completions of sends until `count` requests are free; returns whether they are."""
    completions = stack_bytes(COMPLETIONS_BYTES)
    while int64(verbs.send_free) < count:
        found = int64(call_library(verbs.poll, verbs.send_queue, uint64(COMPLETIONS), completions))
        if found < 0:
            fail(verbs, -found)
        if found <= 0:
            return False
        for index in range(found):
            completion = completion_at(completions + uint64(index * COMPLETION_SIZE))
            if completion.status:
                fail(verbs, completion.status)
                return False
            verbs.send_free += uint32(completion.number)
    return True

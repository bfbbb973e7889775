"""Transmission: the SEND actions of the engine, gathered to super-packets by destination and sent with sendmmsg.

`transmit(port, actions, headers, count) -> packets sent`. Packets to one destination keep their order. A packet that
can not be sent is dropped and counted by reason, never an error: the engine recovers from loss.

A super-packet has packets of equal size; their payload is not copied. Its pieces, for the iovec:

    header 0 | payload 0 | padding 0, ICRC 0, header 1 | payload 1 | ... | padding n, ICRC n

The small pieces are contiguous in the message's frame.
"""

import errno as errno_names
import socket

from numba import int64, uint32, uint64

from fanin_nic.engine.records.actions import ACTION, ActionKind
from fanin_nic.native.codec import encode_header
from fanin_nic.native.compiled import compiled
from fanin_nic.native.libc import EAGAIN, EINTR, IOVEC, MMSGHDR, POLLFD, POLLOUT, errno, poll, sendmmsg, stack_bytes
from fanin_nic.native.memory import address_of, record_at, store_be32, store_u32
from fanin_nic.native.profile import Stage, lap
from fanin_nic.port.descriptors import (
    BATCH_BYTES,
    CONTROL,
    FRAME_SIZE,
    PORT,
    SEND_MESSAGE,
    SEND_MESSAGES,
    SOCKET_ADDRESS,
    Drop,
)
from fanin_nic.port.icrc import behind_payload, final_icrc, forget_payload, offload_headers, udp_length_of
from fanin_nic.port.mirror import begin_mirror, mirror_sent
from fanin_nic.port.tables import count_failed, count_sent, find_peer, peer_at
from fanin_nic.port.verbs.send import post_batch
from fanin_wire import fields
from fanin_wire.fields import (
    COLLECTIVE_QPN,
    DEFAULT_PKEY,
    HEADER,
    ICRC_SIZE,
    IPV4_UDP_SIZE,
    TRANSPORT_SIZE,
    WIRE_VERSION,
)

port_at = record_at(PORT)
action_at = record_at(ACTION)
header_at = record_at(HEADER)
message_at = record_at(SEND_MESSAGE)
mmsghdr_at = record_at(MMSGHDR)
iovec_at = record_at(IOVEC)
control_at = record_at(CONTROL)
pollfd_at = record_at(POLLFD)
ACTION_SIZE = ACTION.itemsize
HEADER_SIZE = HEADER.itemsize
MESSAGE_SIZE = SEND_MESSAGE.itemsize
MMSGHDR_SIZE = MMSGHDR.itemsize
IOVEC_SIZE = IOVEC.itemsize
CONTROL_SIZE = CONTROL.itemsize
DESTINATION_ADDRESS = SOCKET_ADDRESS.fields["address"][1]  # type: ignore[index]
PSN_MASK = 0xFF_FFFF
super_packet_segments = compiled(fields.super_packet_segments)
MSG_DONTWAIT = int(socket.MSG_DONTWAIT)
FULL_SOCKET_WAITS = 10  # in one call of `transmit`, each
FULL_SOCKET_WAIT_MS = 2  # then the packet counts as lost
SENT = -1  # in place of a Drop
REASONS = (
    (errno_names.EMSGSIZE, Drop.MESSAGE_SIZE),
    (errno_names.EAGAIN, Drop.QUEUE_FULL),
    (errno_names.ENOBUFS, Drop.NO_BUFFERS),
    (errno_names.ENOMEM, Drop.NO_BUFFERS),
    (errno_names.ENETUNREACH, Drop.UNREACHABLE),
    (errno_names.EHOSTUNREACH, Drop.UNREACHABLE),
    (errno_names.EPERM, Drop.NOT_PERMITTED),
    (errno_names.EACCES, Drop.NOT_PERMITTED),
)


# A batch


@compiled
def transmit(port_address, actions, headers, count):
    """Send the packets of `count` actions with their HEADER records; returns the number that the kernel took. `actions`
    and `headers`: addresses of parallel tables; actions other than SEND are skipped."""
    port = port_at(port_address)
    port.send_waits = 0
    forget_payload(port)
    sent = int64(0)
    for i in range(int64(count)):
        action = action_at(uint64(actions) + uint64(i * ACTION_SIZE))
        if action.kind == ActionKind.SEND:
            sent += _place(port, action, header_at(uint64(headers) + uint64(i * HEADER_SIZE)))
    return uint32(sent + _flush(port))


@compiled
def _place(port, action, header):
    """Put a packet into the open super-packet of its peer, or a new one; returns the number of packets sent first, to
    make room or as a full batch."""
    size = _packet_size(action.length)
    if size + IPV4_UDP_SIZE > port.mtu:
        port.dropped[Drop.TOO_LONG] += 1
        count_failed(find_peer(port.peer_table, action.destination), 1, 0)
        return int64(0)
    peer_address = find_peer(port.peer_table, action.destination)
    peer = peer_at(peer_address)
    if peer.open_message > 0:
        message = message_at(_message(port, uint64(peer.open_message - 1)))
        if _admits(message, action):
            _append(port, message, action, header)
            port.send_length += size
            return int64(0)
    is_batch = port.send_filled == SEND_MESSAGES or port.send_length >= BATCH_BYTES
    sent = _flush(port) if is_batch else int64(0)
    index = uint64(port.send_filled)
    _start(port, index, action, peer_address)
    _append(port, message_at(_message(port, index)), action, header)
    port.send_filled += 1
    port.send_length += size
    peer.open_message = port.send_filled
    return sent


@compiled
def _flush(port):
    """Send the present batch and begin a new one; returns the number of packets sent."""
    filled = uint64(port.send_filled)
    for i in range(filled):
        _finish(port, i)
        peer_at(message_at(_message(port, i)).peer).open_message = 0
    if filled:
        lap(port.profile, Stage.ENCAPSULATE)
    sent = send_batch(port, port.send_message_table, port.send_header_table, filled)
    port.collective_bytes += uint64(port.send_length)
    port.send_filled = port.send_length = 0
    return sent


# A super-packet


@compiled
def _message(port, index):
    return port.send_message_table + uint64(index) * uint64(MESSAGE_SIZE)


@compiled
def _mmsghdr(port, index):
    """Address of the MMSGHDR of SEND_MESSAGE `index`."""
    return port.send_header_table + uint64(index) * uint64(MMSGHDR_SIZE)


@compiled
def _packet_size(length):
    """Bytes from BTH to ICRC with `length` bytes of payload."""
    return TRANSPORT_SIZE + ((int64(length) + 3) & ~3) + ICRC_SIZE


@compiled
def _start(port, index, action, peer):
    """Make SEND_MESSAGE `index` an empty super-packet for packets like that of `action`."""
    message, mmsghdr = message_at(_message(port, index)), mmsghdr_at(_mmsghdr(port, index))
    size = _packet_size(action.length)
    message.destination = action.destination
    message.peer = peer
    message.packets = message.length = message.payload_length = 0
    message.segment_size = size
    message.segment_limit = super_packet_segments(size - TRANSPORT_SIZE - ICRC_SIZE)
    message.cursor = port.send_frame_table + uint64(index) * uint64(FRAME_SIZE)
    message.iovec = mmsghdr.iov
    store_be32(mmsghdr.name + uint64(DESTINATION_ADDRESS), action.destination)
    _begin_piece(message)


@compiled
def _admits(message, action):
    """Whether the packet of `action` may join a super-packet. Headers alone never join payload."""
    return (
        message.destination == action.destination
        and message.packets < message.segment_limit
        and _packet_size(action.length) <= message.segment_size
        and (action.length > 0) == (message.payload_length > 0)
    )


@compiled
def _append(port, message, action, header):
    """Append a packet, after filling in the fields of `header` that only the port knows."""
    size, length = _packet_size(action.length), action.length
    padding = -int64(length) & 3
    _complete_header(port, message, header, length, padding)
    transport, trailer = message.cursor, message.cursor + uint64(TRANSPORT_SIZE)
    encode_header(address_of(header), transport)
    _extend_piece(message, uint64(TRANSPORT_SIZE))
    if length > 0:
        _payload_piece(message, action.payload, length)
    low, high = offload_headers(
        port.address, message.destination, port.source_port, udp_length_of(TRANSPORT_SIZE, int64(length)),
        message.packets, transport,
    )  # fmt: skip
    state = behind_payload(port, low, high, action.payload, uint64(length))
    store_u32(trailer, uint32(0))
    store_u32(trailer + uint64(padding), final_icrc(state, padding))
    _extend_piece(message, uint64(padding + ICRC_SIZE))
    message.packets += 1
    message.length += size
    message.payload_length += length
    if size < message.segment_size:  # only the last segment may be shorter
        message.segment_limit = message.packets


@compiled
def _finish(port, index):
    """Fill in the members of SEND_MESSAGE `index` for sendmmsg."""
    message, mmsghdr = message_at(_message(port, index)), mmsghdr_at(_mmsghdr(port, index))
    mmsghdr.iov_count = (message.iovec - mmsghdr.iov) // uint64(IOVEC_SIZE) + uint64(1)
    mmsghdr.control_length = 0
    if message.packets > 1:
        mmsghdr.control_length = CONTROL_SIZE
        control_at(mmsghdr.control).segment_size = message.segment_size


@compiled
def _complete_header(port, message, header, length, padding):
    header.solicited = header.migreq = header.fecn = header.becn = header.ackreq = 0
    header.resv6 = header.resv7 = 0
    header.lane = port.lane
    header.version = 0
    header.pkey = DEFAULT_PKEY
    header.dqpn = COLLECTIVE_QPN
    header.psn = port.psn & PSN_MASK
    header.padcount = padding
    header.ceth_version = WIRE_VERSION
    header.length = length
    header.segment_index = message.packets
    port.psn += 1


@compiled
def _begin_piece(message):
    piece = iovec_at(message.iovec)
    piece.base = message.cursor
    piece.length = 0


@compiled
def _extend_piece(message, size):
    """Extend the piece by the next `size` bytes of the frame."""
    iovec_at(message.iovec).length += size
    message.cursor += size


@compiled
def _payload_piece(message, payload, length):
    message.iovec += uint64(IOVEC_SIZE)
    piece = iovec_at(message.iovec)
    piece.base = payload
    piece.length = length
    message.iovec += uint64(IOVEC_SIZE)
    _begin_piece(message)


# Into the kernel


@compiled
def send_batch(port, messages, headers, filled):
    """Give `filled` super-packets to the kernel; returns the number of packets sent. messages, headers: their
    SEND_MESSAGE and MMSGHDR tables."""
    if port.tap and filled:
        begin_mirror(port)
    if port.verbs:
        return post_batch(port, messages, headers, filled)
    sent, done = int64(0), uint64(0)
    while done < filled:
        header = headers + done * uint64(MMSGHDR_SIZE)
        taken = sendmmsg(port.send_fd, header, uint32(filled - done), MSG_DONTWAIT)
        if taken > 0:
            for i in range(done, done + uint64(taken)):
                message = messages + i * uint64(MESSAGE_SIZE)
                sent += count_sent(message_at(message))
                if port.tap:
                    mirror_sent(port, message, headers + i * uint64(MMSGHDR_SIZE), SENT)
            done += uint64(taken)
            continue
        reason = errno()
        if reason in (EAGAIN, EINTR) and port.send_waits < FULL_SOCKET_WAITS:
            _wait_writable(port)
            port.send_waits += 1
        else:
            _drop(port, messages + done * uint64(MESSAGE_SIZE), header, reason)
            done += uint64(1)
    if filled:
        lap(port.profile, Stage.SEND)
    return sent


@compiled
def _drop(port, message, header, reason):
    """Count the packets of a super-packet that the kernel refused, by its reason."""
    drop = _drop_of(reason)
    port.dropped[drop] += message_at(message).packets
    count_failed(message_at(message).peer, message_at(message).packets, reason)
    if drop == Drop.SEND_ERROR:
        port.last_error = reason
    if port.tap:
        mirror_sent(port, message, header, drop)


@compiled
def _drop_of(reason):
    for known, drop in REASONS:
        if reason == known:
            return drop
    return Drop.SEND_ERROR


@compiled
def _wait_writable(port):
    descriptor = stack_bytes(8)
    entry = pollfd_at(descriptor)
    entry.fd = port.send_fd
    entry.events = POLLOUT
    entry.revents = 0
    poll(descriptor, 1, FULL_SOCKET_WAIT_MS)

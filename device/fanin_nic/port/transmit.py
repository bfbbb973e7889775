"""Transmission: the SEND actions of the engine, gathered to super-packets by destination and sent with sendmmsg.

`transmit(port, actions, headers, count) -> packets sent`. Packets to one destination keep their order. A packet that
can not be sent is dropped and counted by reason, never an error: the engine recovers from loss.
"""

import errno as errno_names
import socket

from numba import int64, uint32, uint64

from fanin_nic.engine.records.actions import ACTION, ActionKind
from fanin_nic.native.compiled import compiled
from fanin_nic.native.libc import EAGAIN, EINTR, MMSGHDR, POLLFD, POLLOUT, errno, poll, sendmmsg, stack_bytes
from fanin_nic.native.memory import record_at
from fanin_nic.native.profile import Stage, lap
from fanin_nic.port.descriptors import BATCH_BYTES, PORT, SEND_MESSAGE, SEND_MESSAGES, Drop
from fanin_nic.port.mirror import begin_mirror, mirror_sent
from fanin_nic.port.payload_crc import forget_payload
from fanin_nic.port.peers import count_failed, count_sent, find_peer, peer_at
from fanin_nic.port.super_packet import (
    action_at,
    admits,
    append,
    finish,
    header_at,
    message_address,
    message_at,
    packet_size,
    start,
)
from fanin_nic.port.verbs.send import post_batch
from fanin_wire.fields import HEADER, IPV4_UDP_SIZE

port_at = record_at(PORT)
pollfd_at = record_at(POLLFD)

ACTION_SIZE = ACTION.itemsize
MMSGHDR_SIZE, SEND_MESSAGE_SIZE = MMSGHDR.itemsize, SEND_MESSAGE.itemsize
HEADER_SIZE = HEADER.itemsize
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
    size = packet_size(action.length)
    if size + IPV4_UDP_SIZE > port.mtu:
        port.dropped[Drop.TOO_LONG] += 1
        count_failed(find_peer(port.peer_table, action.destination), 1, 0)
        return int64(0)
    peer_address = find_peer(port.peer_table, action.destination)
    peer = peer_at(peer_address)
    if peer.open_message > 0:
        message = message_at(message_address(port, uint64(peer.open_message - 1)))
        if admits(message, action):
            append(port, message, action, header)
            port.send_length += size
            return int64(0)
    is_batch = port.send_filled == SEND_MESSAGES or port.send_length >= BATCH_BYTES
    sent = _flush(port) if is_batch else int64(0)
    index = uint64(port.send_filled)
    start(port, index, action, peer_address)
    append(port, message_at(message_address(port, index)), action, header)
    port.send_filled += 1
    port.send_length += size
    peer.open_message = port.send_filled
    return sent


@compiled
def _flush(port):
    """Send the present batch and begin a new one; returns the number of packets sent."""
    filled = uint64(port.send_filled)
    for i in range(filled):
        finish(port, i)
        peer_at(message_at(message_address(port, i)).peer).open_message = 0
    if filled:
        lap(port.profile, Stage.ENCAPSULATE)
    sent = send_batch(port, port.send_message_table, port.send_header_table, filled)
    port.collective_bytes += uint64(port.send_length)
    port.send_filled = port.send_length = 0
    return sent


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
                message = messages + i * uint64(SEND_MESSAGE_SIZE)
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
            _drop(port, messages + done * uint64(SEND_MESSAGE_SIZE), header, reason)
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

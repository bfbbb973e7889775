"""Reception: one recvmmsg; super-packets joined by UDP_GRO are split; each packet is checked and entered in a table.

`receive(port) -> count` never blocks. Its packets are RECEIVED[0 .. count) at PORT.received_table, in the buffers of
the port until the next call.
"""

import socket

from numba import int64, uint32, uint64

from fanin_nic.engine.records.actions import RECEIVED_SIZE, received_at
from fanin_nic.native.compiled import compiled
from fanin_nic.native.libc import EAGAIN, EINTR, MMSGHDR, errno, recvmmsg
from fanin_nic.native.memory import load_be16, load_be32, load_u8, load_u32, load_u64, record_at
from fanin_nic.native.profile import Stage, lap
from fanin_nic.port.descriptors import (
    BATCH_BYTES,
    CONTROL,
    MIN_RECEIVE_MESSAGES,
    PORT,
    RECEIVED_CAPACITY,
    SOCKET_ADDRESS,
    Drop,
)
from fanin_nic.port.icrc import contiguous_icrc
from fanin_nic.port.mirror import begin_mirror, mirror_received, remember_record
from fanin_nic.port.ordinary import NONE, other_identification
from fanin_nic.port.tables import UDP_GRO, find_peer, peer_at
from fanin_nic.port.verbs.receive import is_to_group, take_completions
from fanin_wire.fields import BTH, CETH, COLLECTIVE_QPN, FIRST_OFFLOAD_OPCODE, ICRC_SIZE, IPV4_UDP_SIZE, TRANSPORT_SIZE

port_at = record_at(PORT)
message_at = record_at(MMSGHDR)
control_at = record_at(CONTROL)

MESSAGE_SIZE = MMSGHDR.itemsize
CONTROL_SIZE = CONTROL.itemsize
SOCKET_ADDRESS_SIZE = SOCKET_ADDRESS.itemsize
SOURCE_PORT = SOCKET_ADDRESS.fields["port"][1]  # type: ignore[index]
SOURCE_ADDRESS = SOCKET_ADDRESS.fields["address"][1]  # type: ignore[index]
MSG_DONTWAIT = int(socket.MSG_DONTWAIT)
IPPROTO_UDP = int(socket.IPPROTO_UDP)

BTH_SIZE = BTH.size
QUEUE_PAIR = BTH.byte_offset("resv6")  # 8 reserved bits, then the 24 of dqpn
LENGTH = BTH_SIZE + CETH.byte_offset("length")
LANE = BTH_SIZE + CETH.byte_offset("lane")
SEGMENT_INDEX = BTH_SIZE + CETH.byte_offset("segment_index")

ACCEPTED = -1


@compiled
def _is_offload(packet):
    return load_u8(packet) >= FIRST_OFFLOAD_OPCODE


@compiled
def _padding(packet):
    return (load_u8(packet + uint64(1)) >> 4) & 3


@compiled
def _payload_length(packet, size):
    """Payload bytes, without padding, of a packet of `size` bytes from BTH to ICRC."""
    if _is_offload(packet):
        return uint64(load_be16(packet + uint64(LENGTH)))
    return uint64(size - BTH_SIZE - _padding(packet) - ICRC_SIZE)


@compiled
def _check_size(packet, size):
    """Whether all headers are complete: ACCEPTED or the reason to drop the packet."""
    if size < BTH_SIZE + ICRC_SIZE:
        return Drop.RUNT
    if load_u8(packet + uint64(1)) & 0xF:
        return Drop.VERSION
    if size & 3:
        return Drop.LENGTH
    if _is_offload(packet) and size < TRANSPORT_SIZE + ICRC_SIZE:
        return Drop.RUNT
    return ACCEPTED


@compiled
def _icrc_matches(source, destination, source_port, packet, size, place):
    """place: of the packet in its super-packet.

    The kernel numbers the segments of a super-packet from 0 in the IP identification; a lone packet has 0. Packets of
    the offload carry their number, ordinary ones do not: mostly it is the place, but super-packets may have been split
    or joined, and other devices have their own numbers, so any number will do."""
    is_offload = _is_offload(packet)
    identification = uint32(load_u8(packet + uint64(SEGMENT_INDEX))) if is_offload else uint32(place)
    covered = uint64(size - ICRC_SIZE)
    icrc = contiguous_icrc(source, destination, source_port, packet, covered, identification)
    difference = icrc ^ load_u32(packet + covered)
    if difference == 0:
        return True
    return not is_offload and other_identification(difference, place, covered) != NONE


@compiled
def _check_offload(port, packet, size):
    if load_be32(packet + uint64(QUEUE_PAIR)) & 0xFF_FFFF != COLLECTIVE_QPN:
        return Drop.QUEUE_PAIR
    length = int64(load_be16(packet + uint64(LENGTH)))
    if _padding(packet) != (-length & 3) or TRANSPORT_SIZE + length + _padding(packet) + ICRC_SIZE != size:
        return Drop.LENGTH
    if load_u8(packet + uint64(LANE)) != port.lane:
        return Drop.LANE
    return ACCEPTED


@compiled
def _check(port, source, destination, source_port, packet, size, place):
    """ACCEPTED or the reason to drop a packet of `size` bytes from BTH to ICRC, at `place` of its super-packet."""
    verdict = _check_size(packet, size)
    if verdict != ACCEPTED:
        return verdict
    if not _icrc_matches(source, destination, source_port, packet, size, place):
        return Drop.ICRC
    return _check_offload(port, packet, size) if _is_offload(packet) else ACCEPTED


@compiled
def _segment_size(message):
    """Size of a message's datagrams; the last one may be shorter."""
    if message.control_length >= CONTROL_SIZE - 4:
        control = control_at(message.control)
        if control.level == IPPROTO_UDP and control.type == UDP_GRO and control.segment_size > 0:
            return int64(control.segment_size)
    return int64(message.length)


@compiled
def _enter(port, index, source, packet, size):
    entry = received_at(port.received_table + uint64(index) * RECEIVED_SIZE)
    entry.source = source
    entry.length = size - ICRC_SIZE
    entry.address = packet


@compiled
def _split(port, message, destination, found):
    """Enter the good packets of a message to `destination` behind the first `found`; returns the new number."""
    source = load_be32(message.name + uint64(SOURCE_ADDRESS))
    source_port = uint32(load_be16(message.name + uint64(SOURCE_PORT)))
    buffer = load_u64(message.iov)  # IOVEC.base
    segment, length = _segment_size(message), int64(message.length)
    before, offset, place, wire_bytes, payload_bytes = found, int64(0), int64(0), uint64(0), uint64(0)
    while offset < length or length == 0:
        packet, size = buffer + uint64(offset), min(segment, length - offset)
        verdict = Drop.TABLE_FULL
        if found < RECEIVED_CAPACITY:
            verdict = _check(port, source, destination, source_port, packet, size, place)
        if port.tap:
            record = mirror_received(port, verdict, source, destination, source_port, place, packet, size)
            if verdict == ACCEPTED:
                remember_record(port, found, record)
        if verdict == ACCEPTED:
            _enter(port, found, source, packet, size)
            found += 1
            wire_bytes += uint64(size + IPV4_UDP_SIZE)
            payload_bytes += _payload_length(packet, size)
            if _is_offload(packet):
                port.collective_bytes += uint64(size)
            else:
                port.ordinary_bytes += uint64(size)
                port.ordinary += 1
        else:
            port.dropped[verdict] += 1
        if length == 0:
            break
        offset += segment
        place += 1
    if found > before:
        peer = peer_at(find_peer(port.peer_table, source))
        peer.rx_packets += uint64(found - before)
        peer.rx_bytes += wire_bytes
        peer.rx_payload_bytes += payload_bytes
    return found


@compiled
def _destination(port, message, is_from_group_socket):
    """The address that a message was sent to; a verbs device stores it with the message."""
    is_grouped = is_to_group(port, message) if port.verbs else is_from_group_socket
    return port.group if is_grouped else port.address


@compiled
def _arm(port):
    """Reset the lengths of the last messages, which the kernel has overwritten."""
    for i in range(port.receive_used):
        message = message_at(port.receive_message_table + uint64(i) * uint64(MESSAGE_SIZE))
        message.name_length = SOCKET_ADDRESS_SIZE
        message.control_length = CONTROL_SIZE
    port.receive_used = 0


@compiled
def _take(port, descriptor, limit):
    """Let the kernel fill free messages from one socket, up to `limit` used ones."""
    if port.verbs:
        take_completions(port, limit)
        return
    used = uint32(port.receive_used)
    free = port.receive_message_table + uint64(used) * uint64(MESSAGE_SIZE)
    messages = recvmmsg(descriptor, free, uint32(limit - used), MSG_DONTWAIT, 0)
    if messages >= 0:
        port.receive_used += messages
        return
    reason = errno()
    if reason not in (EAGAIN, EINTR):
        port.receive_errors += 1
        port.last_error = reason


@compiled
def _fitting(port, messages, length):
    """Messages of a batch, if `messages` have `length` bytes."""
    return min(int64(port.receive_capacity), max(MIN_RECEIVE_MESSAGES, messages * BATCH_BYTES // max(1, length)))


@compiled
def receive(port_address):
    """Receive packets, about BATCH_BYTES if they are like the last batch; returns the number of good ones.

    Packets to the group come first, so that a repaired result seldom overtakes the one for all children. Room is left
    for packets to the port itself. The queue of a verbs device has both in the order in which they were sent.
    """
    port = port_at(port_address)
    _arm(port)
    port.ordinary = 0
    limit = int64(port.receive_limit)
    if port.group_fd >= 0:
        _take(port, port.group_fd, limit - max(1, limit // 4))
    to_group = int64(port.receive_used)
    _take(port, port.receive_fd, limit)
    messages = int64(port.receive_used)
    if messages == 0:
        lap(port.profile, Stage.LOOK)
        return uint32(0)
    lap(port.profile, Stage.RECEIVE)
    if port.tap:
        begin_mirror(port)
    found, length = int64(0), int64(0)
    for i in range(messages):
        message = message_at(port.receive_message_table + uint64(i) * uint64(MESSAGE_SIZE))
        length += int64(message.length)
        found = _split(port, message, _destination(port, message, i < to_group), found)
    port.receive_limit = _fitting(port, messages, length)
    lap(port.profile, Stage.CHECK)
    return uint32(found)

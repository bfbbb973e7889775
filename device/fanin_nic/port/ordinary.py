"""Packets of ordinary traffic: they are put together in the frames of the port, one behind the other.

place = open_frame(port, destination, size)      where to write the packet, from BTH to padding; 0: dropped
...
close_frame(port)                                its ICRC is added; or drop_frame(port): it is not sent
flush_frames(port)                               all are sent

Packets of equal size to one destination become a super-packet. Their data are copied, so that a program that changes
memory in flight changes no checksum. A packet that can not be sent is dropped and counted by reason, as in `transmit`:
the transport deals with loss.

A receiver must find the IP identification, which the ICRC covers and no UDP socket shows. The kernel numbers the
segments of a super-packet in it; other devices have their own ways. The ICRC is affine: two identifications change it
by their difference, whatever the packet holds. So the right and the computed ICRC show with which identification the
packet would be right, if any. Their difference is that of the identifications, 16 bits as a polynomial, times x^32 for
the register and x^8 for each byte behind them; divided by both it must be a polynomial of 16 bits again. Record 0057:
what this costs in certainty.
"""

import numpy as np
from numba import int64, uint32, uint64

from fanin_nic.native.compiled import compiled
from fanin_nic.native.libc import IOVEC, MMSGHDR
from fanin_nic.native.memory import load_u8, record_at, store_be32, store_u32
from fanin_nic.native.profile import Stage, lap
from fanin_nic.port.crc import crc_multiply
from fanin_nic.port.descriptors import CONTROL, FRAMES_BYTES, MAX_FRAME, SEND_MESSAGE, SEND_MESSAGES, Drop
from fanin_nic.port.folding import DEGREE, inverse_power
from fanin_nic.port.icrc import contiguous_icrc
from fanin_nic.port.tables import find_peer
from fanin_nic.port.transmit import DESTINATION_ADDRESS, send_batch
from fanin_wire.fields import BTH, ICRC_SIZE, IPV4_UDP_SIZE, SUPER_PACKET_SEGMENTS

NONE = -1
BEHIND = IPV4_UDP_SIZE - 6  # bytes of headers behind the identification
OFF_REGISTER = np.uint32(inverse_power(DEGREE))
# The factor that removes 2^k bytes, for each bit k of a length
OFF_BYTES = np.array([inverse_power(8 << bit) for bit in range(17)], np.uint32)
message_at = record_at(SEND_MESSAGE)
mmsghdr_at = record_at(MMSGHDR)
iovec_at = record_at(IOVEC)
control_at = record_at(CONTROL)
MESSAGE_SIZE, MMSGHDR_SIZE, CONTROL_SIZE = SEND_MESSAGE.itemsize, MMSGHDR.itemsize, CONTROL.itemsize
BTH_SIZE = BTH.size


@compiled
def _message(port, index):
    return port.frame_message_table + uint64(index) * uint64(MESSAGE_SIZE)


@compiled
def _header(port, index):
    return port.frame_header_table + uint64(index) * uint64(MMSGHDR_SIZE)


@compiled
def open_frame(port, destination, size):
    """Address for the next packet, of `size` bytes from BTH to padding; 0: too long for the path."""
    length = int64(size) + ICRC_SIZE
    if length + IPV4_UDP_SIZE > port.mtu:
        port.dropped[Drop.TOO_LONG] += 1
        return uint64(0)
    if int64(port.frames_used) + length > FRAMES_BYTES:
        flush_frames(port)
    if not port.frame_messages or not _admits(message_at(_message(port, port.frame_messages - 1)), destination, length):
        if port.frame_messages == SEND_MESSAGES:
            flush_frames(port)
        _start(port, destination, length)
    message = message_at(_message(port, port.frame_messages - 1))
    message.cursor = uint64(length)  # of the open packet
    return port.frames + uint64(port.frames_used)


@compiled
def _admits(message, destination, length):
    """Whether a packet of `length` bytes may join a super-packet."""
    return (
        message.destination == destination
        and int64(message.packets) < int64(message.segment_limit)
        and length <= int64(message.segment_size)
        and int64(message.length) + length <= MAX_FRAME
    )


@compiled
def _start(port, destination, length):
    index = uint64(port.frame_messages)
    message, mmsghdr = message_at(_message(port, index)), mmsghdr_at(_header(port, index))
    message.destination = destination
    message.packets = message.length = message.payload_length = 0
    message.segment_size = length
    message.segment_limit = SUPER_PACKET_SEGMENTS
    message.peer = find_peer(port.peer_table, destination)
    iovec_at(mmsghdr.iov).base = port.frames + uint64(port.frames_used)
    store_be32(mmsghdr.name + uint64(DESTINATION_ADDRESS), destination)
    port.frame_messages += 1


@compiled
def close_frame(port):
    """The packet of the last `open_frame` is written: add its ICRC."""
    message = message_at(_message(port, port.frame_messages - 1))
    place, length = port.frames + uint64(port.frames_used), uint64(message.cursor)
    covered = length - uint64(ICRC_SIZE)
    icrc = contiguous_icrc(port.address, message.destination, port.source_port, place, covered, uint32(message.packets))
    store_u32(place + covered, icrc)
    message.packets += 1
    message.length += uint32(length)
    message.payload_length += uint32(covered - uint64(BTH_SIZE) - uint64((load_u8(place + uint64(1)) >> 4) & 3))
    port.frames_used += uint32(length)
    if length < message.segment_size:  # only the last segment may be shorter
        message.segment_limit = message.packets


@compiled
def drop_frame(port):
    """The packet of the last `open_frame` is not sent."""
    if message_at(_message(port, port.frame_messages - 1)).packets == 0:  # it would have begun a super-packet
        port.frame_messages -= 1


@compiled
def flush_frames(port):
    """Send the frames; returns the number of packets that the kernel took. The caller zeroes `send_waits` when the time
    for a full socket begins."""
    filled = uint64(port.frame_messages)
    for index in range(filled):
        message, mmsghdr = message_at(_message(port, index)), mmsghdr_at(_header(port, index))
        iovec_at(mmsghdr.iov).length = message.length
        mmsghdr.control_length = 0
        if message.packets > 1:
            mmsghdr.control_length = CONTROL_SIZE
            control_at(mmsghdr.control).segment_size = message.segment_size
    if filled:
        lap(port.profile, Stage.ENCAPSULATE)
    sent = send_batch(port, port.frame_message_table, port.frame_header_table, filled)
    port.ordinary_bytes += uint64(port.frames_used)
    port.frame_messages = port.frames_used = 0
    return sent


@compiled
def other_identification(difference, identification, length):
    """The identification that makes a packet right whose ICRC differs by `difference` from the one computed with
    `identification`; NONE if there is none. length: BTH to padding."""
    changed, left = crc_multiply(uint32(difference), OFF_REGISTER), uint64(BEHIND) + uint64(length)
    for bit in range(len(OFF_BYTES)):
        if left >> uint64(bit) & uint64(1):
            changed = crc_multiply(changed, OFF_BYTES[bit])
    if changed & uint32(0xFFFF):
        return int64(NONE)
    high, low = int64(changed) >> 16 & 0xFF, int64(changed) >> 24 & 0xFF
    return int64(identification) ^ (high << 8 | low)

"""Assembly of a super-packet: packets of equal size for one destination, gathered without copying their payload.

Its pieces, for the iovec:  header 0 | payload 0 | padding 0, ICRC 0, header 1 | payload 1 | ... | padding n, ICRC n The
small pieces are contiguous in the message's frame. The payloads stay where they are.
"""

from numba import int64, uint32, uint64

from fanin_nic.engine.records.actions import ACTION
from fanin_nic.native.codec import encode_header
from fanin_nic.native.compiled import compiled
from fanin_nic.native.libc import IOVEC, MMSGHDR
from fanin_nic.native.memory import address_of, record_at, store_be32, store_u32
from fanin_nic.port.descriptors import CONTROL, FRAME_SIZE, SEND_MESSAGE, SOCKET_ADDRESS
from fanin_nic.port.icrc import final_icrc, offload_headers, udp_length_of
from fanin_nic.port.payload_crc import behind_payload
from fanin_wire import fields

action_at = record_at(ACTION)
header_at = record_at(fields.HEADER)
message_at = record_at(SEND_MESSAGE)
mmsghdr_at = record_at(MMSGHDR)
iovec_at = record_at(IOVEC)
control_at = record_at(CONTROL)

MESSAGE_SIZE = SEND_MESSAGE.itemsize
MMSGHDR_SIZE = MMSGHDR.itemsize
IOVEC_SIZE = IOVEC.itemsize
CONTROL_SIZE = CONTROL.itemsize
DESTINATION_ADDRESS = SOCKET_ADDRESS.fields["address"][1]  # type: ignore[index]

TRANSPORT_SIZE = fields.TRANSPORT_SIZE
ICRC_SIZE = fields.ICRC_SIZE
COLLECTIVE_QPN = fields.COLLECTIVE_QPN
DEFAULT_PKEY = fields.DEFAULT_PKEY
WIRE_VERSION = fields.WIRE_VERSION
PSN_MASK = 0xFF_FFFF

super_packet_segments = compiled(fields.super_packet_segments)


@compiled
def message_address(port, index):
    return port.send_message_table + uint64(index) * uint64(MESSAGE_SIZE)


@compiled
def mmsghdr_address(port, index):
    """Address of the MMSGHDR of SEND_MESSAGE `index`."""
    return port.send_header_table + uint64(index) * uint64(MMSGHDR_SIZE)


@compiled
def packet_size(length):
    """Bytes from BTH to ICRC with `length` bytes of payload."""
    return TRANSPORT_SIZE + ((int64(length) + 3) & ~3) + ICRC_SIZE


@compiled
def start(port, index, action, peer):
    """Make SEND_MESSAGE `index` an empty super-packet for packets like that of `action`."""
    message, mmsghdr = message_at(message_address(port, index)), mmsghdr_at(mmsghdr_address(port, index))
    size = packet_size(action.length)
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
def admits(message, action):
    """Whether the packet of `action` may join a super-packet. Headers alone never join payload."""
    return (
        message.destination == action.destination
        and message.packets < message.segment_limit
        and packet_size(action.length) <= message.segment_size
        and (action.length > 0) == (message.payload_length > 0)
    )


@compiled
def append(port, message, action, header):
    """Append a packet, after filling in the fields of `header` that only the port knows."""
    size, length = packet_size(action.length), action.length
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
def finish(port, index):
    """Fill in the members of SEND_MESSAGE `index` for sendmmsg."""
    message, mmsghdr = message_at(message_address(port, index)), mmsghdr_at(mmsghdr_address(port, index))
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

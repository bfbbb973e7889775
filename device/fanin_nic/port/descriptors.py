"""The tables of a port, which compiled code and the daemon find at the address `Port.state`.

Members named `..._table` are addresses of arrays. IPv4 addresses and UDP ports are in host byte order unless noted.
"""

import enum

import numpy as np

from fanin_wire.fields import ICRC_SIZE, IPV4_UDP_SIZE, SUPER_PACKET_SEGMENTS, TRANSPORT_SIZE

# Bytes of a batch. The port reads them twice: the kernel copies them and the port checks them, or the other way round.
# In between they should stay in a core's second-level cache, which other devices may share.
BATCH_BYTES = 1 << 17
RECEIVE_MESSAGES = 16  # datagrams or super-packets of one recvmmsg
MIN_RECEIVE_MESSAGES = 2  # one to the group, one to the port
RECEIVE_BUFFER_SIZE = 1 << 16  # more than any UDP datagram
RECEIVED_PER_MESSAGE = 128  # the kernel's limit for a super-packet (UDP_MAX_SEGMENTS since Linux 6.9)
RECEIVED_CAPACITY = RECEIVE_MESSAGES * RECEIVED_PER_MESSAGE

SEND_MESSAGES = 32  # super-packets of one sendmmsg
IOVECS_PER_MESSAGE = 2 * SUPER_PACKET_SEGMENTS + 1
FRAME_SIZE = SUPER_PACKET_SEGMENTS * (TRANSPORT_SIZE + 3 + ICRC_SIZE)  # headers, padding and ICRCs of a super-packet

# Of packets of ordinary traffic, built one behind the other
FRAMES_BYTES = BATCH_BYTES + (1 << 16)
MAX_FRAME = (1 << 16) - 1 - IPV4_UDP_SIZE  # bytes of their super-packet: the payload of the longest UDP datagram

PEER_SLOTS = 1024  # power of two; one more entry counts for devices without a place


class Drop(enum.IntEnum):
    """Why the port dropped a packet: index of PORT.dropped."""

    RUNT = 0  # received: too short for its headers, or not a multiple of 4
    VERSION = 1  # received: transport header version other than 0
    ICRC = 2  # received: damaged, or not RoCEv2
    LENGTH = 3  # received: CETH length and padding disagree with the packet's size
    QUEUE_PAIR = 4  # received: an offload opcode for another queue pair
    TABLE_FULL = 5  # received: more segments than the known limit of the kernel
    TOO_LONG = 6  # to send: longer than the configured path MTU
    MESSAGE_SIZE = 7  # to send: longer than the MTU of the interface (EMSGSIZE)
    QUEUE_FULL = 8  # to send: the socket stayed full (EAGAIN)
    NO_BUFFERS = 9  # to send: a queue or the memory of the kernel is full (ENOBUFS, ENOMEM)
    UNREACHABLE = 10  # to send: no route (ENETUNREACH, EHOSTUNREACH)
    NOT_PERMITTED = 11  # to send: refused by a packet filter (EPERM, EACCES)
    SEND_ERROR = 12  # to send: anything else, see PORT.last_error (EINVAL: older kernels for MESSAGE_SIZE)
    LANE = 13  # received: for a lane that is not this one
    UNRESOLVED = 14  # to send: the other device's queue pair is not known yet (port over verbs)
    FRAME = 15  # received: not a whole UDP datagram for this port (RAW_PACKET queue pair)


SEND_DROPS = (*range(Drop.TOO_LONG, Drop.SEND_ERROR + 1), int(Drop.UNRESOLVED))


# One other device. Bytes are whole IP packets, header to ICRC; payload is what follows BTH and, for offload opcodes,
# CETH, without padding.
PEER = np.dtype(
    [
        ("address", "u4"),  # 0: free
        ("open_message", "u4"),  # 1 + the SEND_MESSAGE of this batch that another packet may join; 0: none
        ("tx_packets", "u8"),
        ("tx_bytes", "u8"),
        ("tx_payload_bytes", "u8"),
        ("tx_failed", "u8"),  # packets that could not be sent
        ("rx_packets", "u8"),
        ("rx_bytes", "u8"),
        ("rx_payload_bytes", "u8"),
        ("send_error", "u8"),  # errno of the last failure; 0: longer than PORT.mtu
    ],
    align=True,
)
PEER_COUNTERS = tuple(name for name in PEER.names or () if name.startswith(("tx_", "rx_")))

# One super-packet being built, beside the MMSGHDR of the same index
SEND_MESSAGE = np.dtype(
    [
        ("destination", "u4"),
        ("packets", "u4"),
        ("segment_size", "u4"),  # UDP payload of each packet; the last may have less
        ("segment_limit", "u4"),  # packets at most; lowered to `packets` after a shorter one
        ("length", "u4"),  # UDP payload of all packets
        ("payload_length", "u4"),  # without padding
        ("cursor", "u8"),  # address of the next free byte of its frame
        ("iovec", "u8"),  # address of the IOVEC being filled
        ("peer", "u8"),  # address of the PEER
    ],
    align=True,
)

# Where packets to the other device of the same index go, in a port over verbs
DESTINATION = np.dtype(
    [
        ("handle", "u8"),  # of QueuePair.address_handle; 0: not known yet
        ("queue_pair", "u4"),
        ("wanted", "u4"),  # 1: to be asked for
    ],
    align=True,
)

# struct sockaddr_in
SOCKET_ADDRESS = np.dtype([("family", "u2"), ("port", ">u2"), ("address", ">u4"), ("zero", "u8")])

# struct cmsghdr with the segment size: u2 for UDP_SEGMENT, i4 for UDP_GRO
CONTROL = np.dtype([("length", "u8"), ("level", "i4"), ("type", "i4"), ("segment_size", "i4"), ("reserved", "u4")])

PORT = np.dtype(
    [
        ("address", "u4"),
        ("group", "u4"),  # multicast address of `group_fd`
        ("source_port", "u4"),
        ("receive_fd", "i4"),
        ("send_fd", "i4"),
        ("group_fd", "i4"),  # -1: none
        ("lane", "u4"),
        ("mtu", "u4"),
        ("psn", "u4"),  # of the next packet
        ("ordinary", "u4"),  # packets of ordinary traffic in the last `receive`
        ("frames_used", "u4"),  # bytes
        ("frame_messages", "u4"),  # super-packets of ordinary traffic in the present batch
        ("reserved", "u4"),
        ("receive_used", "u4"),  # receive messages with lengths overwritten by the kernel
        ("receive_limit", "u4"),  # receive messages of the next batch
        ("receive_capacity", "u4"),  # receive messages of a batch, at most
        ("send_filled", "u4"),  # send messages of the present batch
        ("send_length", "u4"),  # UDP payload of them all, checked when a super-packet begins
        ("send_waits", "u4"),  # for a full socket, in the present `transmit` or turn of ordinary traffic
        ("last_error", "u4"),  # errno of the last SEND_ERROR or failed recvmmsg
        ("receive_errors", "u4"),  # recvmmsg calls that failed
        ("crc_length", "u4"),  # bytes of `crc_payload`
        ("crc_power_length", "u4"),  # bytes to which the factor `crc_power` belongs
        ("crc_power", "u4"),
        ("crc_behind", "u4"),  # CRC register behind `crc_payload`
        ("crc_low", "u8"),  # what was before it (`offload_headers`)
        ("crc_high", "u8"),
        ("crc_payload", "u8"),  # address of the last payload sent in this batch; 0: none
        ("collective_bytes", "u8"),  # of datagrams sent and received
        ("ordinary_bytes", "u8"),  # of ordinary traffic
        ("profile", "u8"),  # address of a PROFILE while the device is profiled; else 0
        ("tap", "u8"),  # address of a native.tap.TAP while packets or segments are recorded; else 0
        ("verbs", "u8"),  # address of a VERBS in a port over verbs; 0: sockets
        ("received_table", "u8"),  # engine.records.actions.RECEIVED [RECEIVED_CAPACITY], valid until the next `receive`
        ("receive_message_table", "u8"),  # MMSGHDR [RECEIVE_MESSAGES]
        ("send_message_table", "u8"),  # SEND_MESSAGE [SEND_MESSAGES]
        ("send_header_table", "u8"),  # MMSGHDR [SEND_MESSAGES]
        ("send_iovec_table", "u8"),  # IOVEC [SEND_MESSAGES, IOVECS_PER_MESSAGE]
        ("send_frame_table", "u8"),  # bytes [SEND_MESSAGES, FRAME_SIZE]
        ("frames", "u8"),  # bytes [FRAMES_BYTES]: packets of ordinary traffic, from BTH to ICRC, without gaps
        ("frame_message_table", "u8"),  # SEND_MESSAGE [SEND_MESSAGES]
        ("frame_header_table", "u8"),  # MMSGHDR [SEND_MESSAGES]
        ("peer_table", "u8"),  # PEER [PEER_SLOTS + 1]
        ("dropped", "u8", (len(Drop),)),
    ],
    align=True,
)

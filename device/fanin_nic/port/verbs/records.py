"""The tables of a verbs port, and the layouts of libibverbs (infiniband/verbs.h) for compiled code. They are part of
its binary interface, as are the offsets of a context's functions to post and poll, which it does not export."""

import numpy as np

from fanin_nic.native.memory import record_at

# struct ibv_sge
SGE = np.dtype([("address", "u8"), ("length", "u4"), ("key", "u4")])

# struct ibv_send_wr for a datagram
SEND_REQUEST = np.dtype(
    {
        "names": ["number", "next", "sges", "sge_count", "opcode", "flags", "handle", "queue_pair", "queue_key"],
        "formats": ["u8", "u8", "u8", "i4", "i4", "u4", "u8", "u4", "u4"],
        "offsets": [0, 8, 16, 24, 28, 32, 40, 48, 52],
        "itemsize": 128,
    }
)

# struct ibv_recv_wr
RECEIVE_REQUEST = np.dtype([("number", "u8"), ("next", "u8"), ("sges", "u8"), ("sge_count", "i4")], align=True)

# struct ibv_wc
COMPLETION = np.dtype(
    [
        ("number", "u8"),
        ("status", "i4"),
        ("opcode", "i4"),
        ("vendor_error", "u4"),
        ("length", "u4"),
        ("immediate", "u4"),
        ("queue_pair", "u4"),
        ("source", "u4"),  # number of the sender's queue pair
        ("flags", "u4"),
        ("rest", "u8"),
    ]
)

# struct ibv_context: byte offsets of functions
POLL, REQUEST_EVENT, POST_SEND, POST_RECEIVE = 96, 104, 208, 216

SEND_OPCODE = 2  # IBV_WR_SEND
SIGNALED = 2  # IBV_SEND_SIGNALED
GRH_BYTES = 40  # before each received datagram; of RoCE v2 over IPv4 the last 20 are the IP header
GRH_SOURCE, GRH_DESTINATION = 32, 36  # offsets there
MULTICAST_QUEUE_PAIR = 0xFFFFFF  # for packets to a group

# For the compiled code of a verbs port. Members named like tables are addresses of arrays.
VERBS = np.dtype(
    [
        ("queue_pair", "u8"),  # address of the struct ibv_qp
        ("send_queue", "u8"),  # address of a struct ibv_cq
        ("receive_queue", "u8"),
        ("channel", "u8"),  # address of the struct ibv_comp_channel
        ("poll", "u8"),  # addresses of the functions
        ("request_event", "u8"),
        ("post_send", "u8"),
        ("post_receive", "u8"),
        ("take_event", "u8"),
        ("acknowledge", "u8"),
        ("send_requests", "u8"),  # SEND_REQUEST [send_depth]
        ("send_sges", "u8"),  # SGE [send_depth]
        ("receive_requests", "u8"),  # RECEIVE_REQUEST [receive_depth]
        ("receive_buffers", "u8"),  # bytes [receive_depth, receive_size]
        ("completions", "u8"),  # COMPLETION [RECEIVE_BATCH]: of the last poll for received datagrams
        ("destinations", "u8"),  # DESTINATION [PEER_SLOTS + 1]
        ("send_depth", "u4"),
        ("send_size", "u4"),  # bytes of a buffer
        ("receive_size", "u4"),
        ("send_next", "u4"),  # row of the next request
        ("send_free", "u4"),  # requests not held by the device
        ("chained", "u4"),  # requests of the present batch that are not posted yet
        ("received", "u4"),  # completions of the last call, whose buffers are to be posted again
        ("waiting", "u4"),  # completions found by `longest_sleep`, for the next call
        ("asked_event", "u4"),  # 1: an event was asked for since the channel was emptied
        ("broken", "u4"),  # 1: the queue pair has failed; compiled code leaves it alone until it is recovered
        ("status", "u4"),  # of the failed completion, or errno of the failed call
        ("wanted", "u4"),  # 1: some destination is wanted; the resolver was woken
        ("wake_fd", "i4"),  # an eventfd that wakes the resolver
        ("receive_header", "u4"),  # bytes in front of a packet in a received buffer; offsets of the addresses there:
        ("received_source", "u4"),
        ("received_destination", "u4"),
        ("own_mac", "u8"),  # Ethernet address of a RAW_PACKET queue pair, 48 bits; 0: a UD queue pair
    ],
    align=True,
)

RECEIVE_BATCH = 256  # datagrams of one `receive`

verbs_at = record_at(VERBS)

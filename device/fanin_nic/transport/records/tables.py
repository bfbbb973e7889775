"""The tables of the transport, laid over one block of memory, the arena.

The TRANSPORT record is at its start and holds the offsets of all tables. PSNs count modulo 2^24; counters of queues run
freely, and a row is the counter modulo the depth.
"""

import enum

import numpy as np

from fanin_nic.native.arena import Table
from fanin_nic.transport.records.actions import ACTION, PACKET
from fanin_wire.abi import RECEIVE_WQE, SEND_WQE
from fanin_wire.verbs import MAX_RD_ATOMIC

RESPONSES = 2 * MAX_RD_ATOMIC  # rows of a queue pair: those being answered, and repetitions


class RequestState(enum.IntEnum):
    """States of a request to send."""

    POSTED = 0
    STARTED = 1  # it has its PSNs
    ANSWERED = 2  # a read or atomic whose response is complete
    REFUSED = 3  # `status` says why


class Receiving(enum.IntEnum):
    """The message that a queue pair is receiving."""

    NOTHING = 0
    SEND = 1
    WRITE = 2


class Due(enum.IntEnum):
    """The acknowledgement that a responder owes (section 9.7.5)."""

    NOTHING = 0
    ACK = 1
    NEGATIVE = 2  # with the syndrome `due_syndrome`
    FATAL = 3  # likewise; then the queue pair is in error


TRANSPORT = np.dtype(
    [
        ("address", "u4"),  # IPv4 of the device, host order
        ("queue_pairs", "u4"),  # a power of two
        ("regions", "u4"),
        ("actions", "u4"),
        ("action_count", "u4"),
        ("send_depth", "u4"),  # of each queue pair, a power of two
        ("receive_depth", "u4"),  # likewise
        ("shared_queues", "u4"),
        ("shared_depth", "u4"),  # of each shared receive queue, a power of two
        ("window", "u4"),  # PSNs that a queue pair may have in flight
        ("queue_pair_end", "u4"),  # 1 + highest row ever used
        ("ready_head", "u4"),  # queue pairs with work, first in first out
        ("ready_tail", "u4"),
        ("reserved", "u4"),
        ("now", "u8"),  # ns; of the event in progress
        ("next_deadline", "u8"),  # ns; no timer expires before it; 2^64 - 1: none runs
        ("queue_pair_offset", "u8"),
        ("ready_offset", "u8"),
        ("send_offset", "u8"),
        ("receive_offset", "u8"),
        ("shared_queue_offset", "u8"),
        ("shared_receive_offset", "u8"),
        ("response_offset", "u8"),
        ("original_offset", "u8"),
        ("region_offset", "u8"),
        ("action_offset", "u8"),
        ("packet_offset", "u8"),
        ("network_header_offset", "u8"),
        ("counter_offset", "u8"),
    ],
    align=True,
)

QUEUE_PAIR = np.dtype(
    [
        # Identity, and what the program has set
        ("qpn", "u4"),  # 0: the row is free
        ("index", "u4"),
        ("kind", "u1"),  # rocev2.Transport
        ("state", "u1"),  # verbs.QueuePairState
        ("all_signaled", "u1"),
        ("is_ready", "u1"),  # in the list of those with work
        ("domain", "u4"),  # protection domain
        ("send_cq", "u4"),
        ("receive_cq", "u4"),
        ("shared_queue", "u4"),  # 1 + row of the shared receive queue; 0: it has its own
        ("access", "u4"),  # verbs.Access: what the other side may do
        ("qkey", "u4"),
        ("destination", "u4"),  # IPv4 of the other side, host order
        ("remote_qpn", "u4"),
        ("mtu", "u4"),  # bytes of payload of a packet
        ("retry_count", "u1"),
        ("rnr_retry", "u1"),
        ("rnr_timer", "u1"),  # asked for in its RNR NAKs
        ("most_reads", "u1"),  # reads and atomics that may be in flight
        ("most_responses", "u1"),  # answered at one time
        ("reserved", "u1", (3,)),
        ("timeout", "u8"),  # ns; 0: none
        # Requester
        ("send_head", "u4"),  # oldest request that is not complete
        ("send_next", "u4"),  # request whose packets are being sent
        ("send_tail", "u4"),
        ("next_psn", "u4"),  # of the next packet
        ("unacknowledged", "u4"),  # oldest unacknowledged PSN
        ("end_psn", "u4"),  # first PSN never sent
        ("reads", "u4"),  # reads and atomics in flight
        ("unasked", "u4"),  # packets since the last one that asks for an acknowledgement
        ("limit", "u4"),  # PSNs that may be in flight now: at most the window of the device
        ("retries_left", "u1"),
        ("rnr_left", "u1"),
        ("went_back", "u1"),  # a response is lost, and was asked for again
        ("timer_runs", "u1"),
        ("backoff", "u1"),  # time-outs since the last progress, up to MAX_BACKOFF
        ("deadline", "u8"),  # ns: of the oldest packet; 2^64 - 1: no timer runs
        ("not_before", "u8"),  # ns: an RNR NAK forbids earlier sends; 0: none does
        # Responder
        ("receive_head", "u4"),  # oldest receive request; with a shared queue: the one taken from it
        ("receive_tail", "u4"),
        ("expected", "u4"),  # PSN
        ("msn", "u4"),  # messages completed, modulo 2^24
        ("answered_psns", "u4"),  # of the reads and atomics since the last packet of a SEND or WRITE
        ("answered_messages", "u4"),  # their number
        ("receiving", "u1"),  # Receiving
        ("due", "u1"),  # Due
        ("due_syndrome", "u1"),
        ("gap_reported", "u1"),  # the missing packet was asked for
        ("due_psn", "u4"),  # of a NAK
        ("gap_end", "u4"),  # PSN behind the last packet dropped for a missing one before it
        ("write_rkey", "u4"),
        ("write_left", "u4"),  # bytes of the message still to come
        ("message_length", "u4"),  # bytes of the message that came; of a WRITE, in all
        ("write_address", "u8"),  # of the next byte
        ("response_head", "u4"),  # oldest response that is not complete
        ("response_tail", "u4"),
        ("response_count", "u4"),  # without repetitions
        ("originals", "u4"),  # atomics performed; ORIGINAL keeps the last ones
    ],
    align=True,
)

SEND_REQUEST = np.dtype(
    [
        *((name, SEND_WQE[name]) for name in SEND_WQE.names or ()),  # as it was posted
        ("first_psn", "u4"),
        ("packets", "u4"),  # PSNs
        ("length", "u4"),  # bytes of the message
        ("state", "u1"),  # RequestState
        ("status", "u1"),  # REFUSED: CompletionStatus
        ("reserved2", "u2"),
    ],
    align=True,
)

RECEIVE_REQUEST = np.dtype(
    [
        *((name, RECEIVE_WQE[name]) for name in RECEIVE_WQE.names or ()),
        ("length", "u8"),  # bytes of all SGEs
    ],
    align=True,
)

SHARED_QUEUE = np.dtype(
    [
        ("is_used", "u4"),
        ("index", "u4"),
        ("domain", "u4"),  # protection domain
        ("room", "u4"),  # requests that it may hold, including taken ones
        ("head", "u4"),  # oldest request
        ("tail", "u4"),
        ("taken", "u4"),  # requests that queue pairs took and did not complete
        ("reserved", "u4"),
    ],
    align=True,
)

RESPONSE = np.dtype(  # a read or atomic to answer
    [
        ("first_psn", "u4"),
        ("packets", "u4"),
        ("done", "u4"),  # packets sent
        ("length", "u4"),  # bytes of a read
        ("address", "u8"),  # of a read; of an atomic the address of its ORIGINAL
        ("rkey", "u4"),
        ("msn", "u4"),
        ("is_atomic", "u1"),
        ("is_repetition", "u1"),
        ("reserved", "u1", (6,)),
    ],
    align=True,
)

# Former value of memory, with which a repeated atomic is answered (section 9.7.4)
ORIGINAL = np.dtype([("value", "u1", (8,)), ("psn", "u4"), ("is_set", "u4")], align=True)

REGION = np.dtype(
    [
        ("start", "u8"),  # client's virtual address
        ("length", "u8"),
        ("mapped", "u8"),  # address in the device; in the memory of a process: equal to `start`
        ("key", "u4"),  # lkey and rkey; 0: the row is free
        ("domain", "u4"),
        ("access", "u4"),  # verbs.Access
        ("process", "u4"),  # 0: mapped; else 1 + the client whose process memory it is
    ],
    align=True,
)


class Counter(enum.IntEnum):
    RX_PACKETS = 0  # for a queue pair that takes them
    TX_PACKETS = 1
    RX_BYTES = 2  # of payload
    TX_BYTES = 3
    RESENT = 4  # packets
    TIMEOUTS = 5
    ACKS_SENT = 6
    NAKS_SENT = 7
    RNR_NAKS_SENT = 8
    NAKS_RECEIVED = 9
    RNR_NAKS_RECEIVED = 10
    IMPLIED_NAKS = 11  # acknowledgements that prove a lost response
    DUPLICATES = 12  # requests performed before
    COMPLETIONS = 13
    ERRORS = 14  # queue pairs that have ended in error
    ACTION_OVERFLOW = 15
    DROP_SHORT = 16
    DROP_VERSION = 17
    DROP_PADDING = 18
    DROP_UNKNOWN_OPCODE = 19
    DROP_PKEY = 20
    DROP_UNKNOWN_QUEUE_PAIR = 21
    DROP_SERVICE = 22  # the opcode is of another transport service
    DROP_STATE = 23  # the queue pair is not ready
    DROP_SENDER = 24
    DROP_QKEY = 25
    DROP_SEQUENCE = 26  # a request or response before it is missing
    DROP_BLOCKED = 27  # the queue pair is about to end in error
    DROP_STALE = 28  # acknowledgement or response to nothing in flight
    DROP_RESPONSE = 29  # does not fit its request
    DROP_DUPLICATE = 30  # repeated request that can no longer be answered
    DROP_LENGTH = 31  # datagram, or message of UC, longer than its buffer
    DROP_NO_RECEIVE = 32  # datagram, or message of UC, without a receive request
    DROP_PROTECTION = 33  # UC, UD: memory that may not be written
    DROP_OPCODE_SEQUENCE = 34  # UC: no packet of the message in progress
    REFUSED_INVALID = 35  # requests answered with NAK invalid request
    REFUSED_ACCESS = 36  # with NAK remote access error
    REFUSED_OPERATION = 37  # with NAK remote operational error


COUNTERS = 64


TABLES = {
    "queue_pairs": Table(QUEUE_PAIR, "queue_pair_offset"),
    "ready": Table(np.dtype("u4"), "ready_offset"),
    "sends": Table(SEND_REQUEST, "send_offset"),
    "receives": Table(RECEIVE_REQUEST, "receive_offset"),
    "shared_queues": Table(SHARED_QUEUE, "shared_queue_offset"),
    "shared_receives": Table(RECEIVE_REQUEST, "shared_receive_offset"),
    "responses": Table(RESPONSE, "response_offset"),
    "originals": Table(ORIGINAL, "original_offset"),
    "regions": Table(REGION, "region_offset"),
    "actions": Table(ACTION, "action_offset"),
    "packets": Table(PACKET, "packet_offset"),
    "network_headers": Table(np.dtype("u1"), "network_header_offset"),
    "counters": Table(np.dtype("u8"), "counter_offset"),
}

"""The tables of the simulator, on which its compiled code works.

The WORLD record contains the address of every other table, and the members of `kernel.tables`. A *side* is one end of a
connection: it posts requests, and receives those of the other side.
"""

import numpy as np

from fanin_sim.kernel.tables import EVENTS_AND_PACKETS, OUTCOME, TRACING, row_accessor
from fanin_sim.rdma.codes import FaultKind
from fanin_wire.abi import RECEIVE_WQE, SEND_WQE

KINDS = len(FaultKind) + 1
REQUESTS = 10  # of a side in one generation
GENERATIONS = 2  # how often a connection is made
BUFFER = 1280  # bytes: room for the longest message and a network header
MAX_MESSAGE = 1200  # bytes of a message
SLOTS = 3  # areas of a side that the other side writes, and as many that it reads
WORDS = 4  # of a side that the other side changes by atomics
COUNTERS = 1024  # of packets removed in a row, on a link

# The memory of a side in one generation: buffers of its requests, of its receive requests, then areas for the other
# side's requests: written ones, read ones, and the words of atomics.
RECEIVES_AT = REQUESTS * BUFFER
WRITTEN_AT = 2 * REQUESTS * BUFFER
READ_AT = WRITTEN_AT + SLOTS * BUFFER
WORDS_AT = READ_AT + SLOTS * BUFFER
GENERATION_BYTES = WORDS_AT + WORDS * 8
SIDE_BYTES = GENERATIONS * GENERATION_BYTES

WORLD = np.dtype(
    [
        ("seed", "u8"),
        ("now", "i8"),  # ns
        ("device_count", "i8"),
        ("side_count", "i8"),  # two for each connection: the sides 2 c and 2 c + 1
        ("devices", "u8"),
        ("sides", "u8"),
        ("requests", "u8"),  # of a side: REQUESTS for each generation
        ("receives", "u8"),  # likewise
        ("is_shared", "i8"),  # receive requests go to the shared queues of their devices
        ("gap", "i8"),  # longest time between two steps of a program, ns
        ("pause", "i8"),  # longest time that a device lets packets wait, ns
        ("mtu", "i8"),
        ("retry_count", "i8"),
        ("rnr_retry", "i8"),
        ("reads", "i8"),  # reads and atomics under way
        ("timeout", "i8"),  # ns
        ("psn_base", "i8"),
        *EVENTS_AND_PACKETS,
        ("received", "u8"),  # RECEIVED: a batch
        ("send_wqe", "u8"),
        ("receive_wqe", "u8"),
        # faults
        ("rate", "i8", (KINDS,)),  # of 65536
        ("budget", "i8"),  # random faults that may still happen
        ("most_in_a_row", "i8"),  # times that a packet does not arrive in time
        ("checks_icrc", "i8"),
        ("restart_device", "i8"),  # -1: none
        ("restart_at", "i8"),  # events of the schedule before
        ("wrong_side", "i8"),  # that posts a wrong request; -1: none
        ("wrong_generation", "i8"),
        ("wrong_request", "i8"),  # its number
        ("wrong_kind", "i8"),
        ("abandon_connection", "i8"),  # -1: none
        ("abandon_at", "i8"),  # events of the schedule before
        # addresses of the transport's events
        ("on_packets", "u8"),
        ("on_post_send", "u8"),
        ("on_post_receive", "u8"),
        ("on_post_shared", "u8"),
        ("on_serve", "u8"),
        ("on_tick", "u8"),
        ("on_fail", "u8"),
        ("on_wake", "u8"),
        *OUTCOME,
        ("completions", "i8"),
        ("succeeded", "i8"),  # requests
        ("failed", "i8"),
        ("received_messages", "i8"),
        ("connections_made", "i8"),
        ("happened", "i8", (KINDS,)),  # faults by kind
        *TRACING,
    ],
    align=True,
)

DEVICE = np.dtype(
    [
        ("base", "u8"),  # of its arena
        ("snapshot", "u8"),
        ("size", "i8"),
        ("address", "i8"),
        ("memory", "u8"),  # of its programs
        ("model", "u8"),  # what must be in it
        ("memory_size", "i8"),
        ("key", "i8"),
        ("inbox", "u8"),  # u4: packets that wait
        ("inbox_count", "i8"),
        ("inbox_room", "i8"),
        ("serves", "i8"),  # it is about to work off what has arrived
        ("turns", "i8"),
        ("boots", "i8"),
        ("tickets", "i8"),  # requests that were posted to its shared queues
    ],
    align=True,
)

SIDE = np.dtype(
    [
        ("device", "i8"),
        ("row", "i8"),  # of its queue pair
        ("shared_queue", "i8"),  # row of the shared receive queue that it uses if `is_shared`
        ("memory_at", "i8"),  # its part of the memory of its device
        ("generation", "i8"),
        ("kind", "i8"),  # rocev2.Transport
        ("is_broken", "i8"),  # its connection has failed: nothing more is posted
        ("may_fail", "i8"),  # requests may end in error, since the connection, or a device, has failed
        ("steps", "i8"),
        ("posted", "i8"),  # requests of this generation
        ("ended", "i8"),  # of them, or known to have ended
        ("receives_posted", "i8"),
        ("receives_ended", "i8"),
        ("cut_off", "i8"),  # requests of a shared queue that its queue pair has ended with an error
        ("messages", "i8"),  # of the other side that have arrived
        ("is_forgotten", "i8"),  # its device has started anew in this generation
        ("numbers", "i8"),  # queue pairs that it has had
    ],
    align=True,
)

REQUEST = np.dtype(
    [
        ("kind", "i8"),
        ("opcode", "i8"),  # verbs.RequestOpcode
        ("length", "i8"),
        ("flags", "i8"),
        ("local", "i8"),  # place in the memory of its device
        ("remote", "i8"),  # place in the memory of the other device
        ("pattern", "i8"),  # of the bytes that it sends, or must find
        ("operand", "u8"),  # atomics
        ("compare", "u8"),
        ("original", "u8"),  # what an atomic must find
        ("result", "u8"),  # and leave
        ("message", "i8"),  # number of its message for the receiver; -1: it has none
        ("wrong", "i8"),  # WrongRequest
        ("wanted", "i8"),  # status of a wrong request
        ("fate", "i8"),  # RequestFate
    ],
    align=True,
)

RECEIVE = np.dtype(
    [
        ("place", "i8"),
        ("length", "i8"),
        ("fate", "i8"),  # RequestFate
        ("ticket", "i8"),  # its place in the order in which those of a shared queue were posted
    ],
    align=True,
)

world_row, device_row, side_row = row_accessor(WORLD), row_accessor(DEVICE), row_accessor(SIDE)
request_row, receive_row = row_accessor(REQUEST), row_accessor(RECEIVE)
send_wqe_row, receive_wqe_row = (
    row_accessor(SEND_WQE[[n for n in SEND_WQE.names or () if n != "sge"]]),
    row_accessor(RECEIVE_WQE[[n for n in RECEIVE_WQE.names or () if n != "sge"]]),
)

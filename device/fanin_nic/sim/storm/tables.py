"""The tables of a storm: a world that compiled code plays a schedule in.

The WORLD record holds the address of every other table. Numbers that are computed with are signed; addresses and sets
of bits are not.
"""

from __future__ import annotations

import enum

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numba.np import numpy_support

OPCODES = 16
NEVER = 2**62  # ns
MOST_FAULTS = 256  # of one schedule


class FaultKind(enum.IntEnum):
    """What can go wrong. The first happen to packets, each by chance; the last are planned, at an event of a device."""

    LOSS = 1
    CORRUPTION = 2  # one bit of the packet is flipped
    DUPLICATION = 3
    REORDERING = 4  # late by so little that some packets overtake it
    DELAY = 5  # late by about a time-out
    LATE_RANK = 6  # a rank joins, posts or leaves later
    READ_FAILURE = 7  # a DMA read of a rank's memory fails
    PARTITION = 8  # a link, or all links of a device, carry nothing for a time
    RANK_CRASH = 9
    NIC_CRASH = 10  # with the ranks of its node
    SWITCH_CRASH = 11
    RESTART = 12  # a device that is gone comes back, knows nothing, and has another boot id
    FREEZE = 13  # a device does nothing for a time; what reaches it waits
    EARLY_LEAVE = 14  # a rank leaves without waiting for its requests


PACKET_FAULTS = 5  # kinds up to DELAY
KINDS = len(FaultKind) + 1


class Violation(enum.IntEnum):
    """What must never happen."""

    NOTHING = 0
    SLOT_MISPLACED = 1  # I3: a slot serves a position that another slot has to serve
    SLOT_WENT_BACK = 2  # I3: a slot serves an earlier position than before
    LEASE_EXCEEDED = 3  # I4
    WRONG_SLOT_COUNT = 4  # I4: the device's count of slots in use
    WRONG_RESULT = 5  # I1: a request has succeeded, its data are not the reference
    DIFFERENT_RESULTS = 6  # I2: two receivers have other bits
    SLOT_LEAKED = 7  # I4: a job or a slot of it is left when all are gone
    WRONG_COMPLETION = 8  # I5: a completion too many, or out of order
    STRAY_WRITE = 9  # I6: a write outside of what the request has named
    OPERATION_HANGS = 10  # I7: a request has not ended within the bound
    JOIN_REFUSED = 11  # a rank is told a status that the faults do not explain
    WRONG_STATUS = 12  # a request ends with a status that the faults do not explain
    ACTION_OVERFLOW = 13  # the engine's table of actions was too small
    STRANGER_ADDRESSED = 14  # a packet to an address that no device of the job has
    PACKET_STORM = 15  # so many events that the devices must be answering each other for ever
    CRASH = 16  # the process that ran the engine has died


class Happening(enum.IntEnum):
    """What a line of a trace is about; also the kinds of events that wait in the queue."""

    PACKET = 1
    READ_DONE = 2
    RANK = 3  # a rank goes on with its program
    REBOOT = 4
    SERVE = 5  # a device goes on with its send queues after a pause
    SENT = 6  # the others are in traces only
    TIMER = 7
    JOIN = 8
    ANSWER = 9  # to a JOIN or LEAVE
    POST = 10
    COMPLETION = 11
    LEAVE = 12
    READ = 13
    STRIKE = 14  # something that was planned happens
    BROKEN = 15
    LIFE = 16  # the job is formed once more


class Fate(enum.IntEnum):
    """What becomes of a packet that is sent."""

    ARRIVES = 0
    LOST = 1
    CORRUPTED = 2  # and found out by the ICRC: dropped
    CORRUPTED_UNSEEN = 3  # the ICRC does not cover the bit, or is not looked at
    CUT = 4  # the link is down
    NOBODY = 5  # the receiver is gone


class Step(enum.IntEnum):
    """How far the program of a rank has come."""

    WAITING = 0  # has not begun
    JOINING = 1
    RUNNING = 2
    LEAVING = 3  # will leave
    GONE = 4
    DEAD = 5


WORLD = np.dtype(
    [
        ("seed", "u8"),
        ("now", "i8"),  # ns
        ("quiet_since", "i8"),  # ns: end of the last fault, last step of a rank
        ("bound", "i8"),  # ns after that within which every request must end
        ("vertex_count", "i8"),
        ("rank_count", "i8"),
        ("vertices", "u8"),
        ("ranks", "u8"),
        ("messages", "u8"),  # of rank 0, then of rank 1, ...
        ("message_limit", "i8"),  # so many does each rank post, at most
        ("first_position", "i8"),
        ("slots_offered", "i8"),
        ("detection", "i8"),  # ns
        ("lives", "i8"),  # how often the job is to be formed, one time after the other
        ("deadline_ms", "i8"),  # of every request; 0: none
        ("gap", "i8"),  # ns between two requests of a rank, at most
        # what waits
        ("queue", "u8"),
        ("queue_size", "i8"),
        ("queue_room", "i8"),
        ("order", "i8"),
        ("packets", "u8"),
        ("packet_bytes", "u8"),
        ("packet_stride", "i8"),
        ("packet_room", "i8"),
        ("free", "u8"),  # stack of unused packets
        ("free_count", "i8"),
        ("reads", "u8"),  # ACTION of the read under way, by rank
        ("pauses", "i8"),  # of 65536: how often a device does not serve its queues at once
        # faults
        ("rate", "i8", (KINDS,)),  # of 65536, before the weight of the link and the opcode
        ("most_in_a_row", "i8"),  # packets of an opcode lost one after the other on a link
        ("budget", "i8"),  # faults that may still happen by chance
        ("checks_icrc", "i8"),
        ("is_given", "i8"),  # only the faults in `given` happen
        ("given", "u8"),
        ("given_count", "i8"),
        ("faults", "u8"),  # that have happened
        ("fault_count", "i8"),
        ("tolerated", "u8"),  # bitmap of statuses that the faults explain
        ("may_write_wild", "i8"),  # corrupted packets reach the engine: results can not be right
        ("sent", "u8"),  # u4 by link and opcode
        ("row", "u8"),  # u4: packets lost one after the other, by link and opcode
        # what compiled code calls
        ("on_packet", "u8"),
        ("on_batch_end", "u8"),
        ("on_post", "u8"),
        ("on_serve", "u8"),
        ("on_dma_done", "u8"),
        ("on_tick", "u8"),
        ("on_join", "u8"),
        ("on_leave", "u8"),
        ("on_lose", "u8"),
        ("on_forgive", "u8"),
        # what came of it
        ("violation", "i8"),
        ("culprit", "i8"),  # the device, or the rank
        ("detail", "i8"),
        ("events", "i8"),
        ("deliveries", "i8"),
        ("dropped", "i8"),  # corrupted packets that the ICRC has found out
        ("open_requests", "i8"),
        ("ended", "i8"),  # requests that have ended
        ("failed", "i8"),  # of them with an error
        ("life", "i8"),  # how often the job has been formed, or tried to
        ("formed", "i8"),  # how often it was formed
        ("refused", "i8"),  # JOINs that were refused in this life
        ("slowest", "i8"),  # ns from the last fault to the last end of a request
        ("positions", "i8"),  # that a rank has posted, at most
        ("slots_granted", "i8"),
        ("trace", "u8"),  # 0: none
        ("trace_room", "i8"),
        ("trace_count", "i8"),
    ],
    align=True,
)

VERTEX = np.dtype(  # a device
    [
        ("base", "u8"),  # of its arena
        ("snapshot", "u8"),
        ("size", "i8"),
        ("keys", "u8"),  # see invariants.check; the positions follow
        ("positions", "u8"),
        ("watch_size", "i8"),
        ("address", "i8"),
        ("is_switch", "i8"),
        ("alive", "i8"),
        ("deadline", "i8"),
        ("events", "i8"),
        ("doom", "i8"),  # 1 + what was planned for the event in progress
        ("allowed", "i8"),  # actions that it still performs
        ("boots", "i8"),
        ("frozen_until", "i8"),
        ("cut_until", "i8"),  # all its links are down
        ("cut_peer", "i8"),  # or that to one device; -1: to all
    ],
    align=True,
)

RANK = np.dtype(
    [
        ("vertex", "i8"),
        ("queue", "i8"),
        ("step", "i8"),
        ("turn", "i8"),  # of its program: an event of another turn is out of date
        ("join", "u8"),  # JOIN_EVENT
        ("key", "i8"),  # of the first life
        ("messages", "i8"),
        ("first_message", "i8"),
        ("posted", "i8"),
        ("ended", "i8"),
        ("reads", "i8"),  # DMA reads so far
        ("steps", "i8"),  # of its program so far
    ],
    align=True,
)

MESSAGE = np.dtype(  # a message as one rank posts it
    [
        ("wqe", "u8"),
        ("result", "u8"),
        ("reference", "u8"),  # 0: any, but the same at all
        ("length", "i8"),
        ("shared", "u8"),  # without a reference: what the first receiver had
        ("is_silent", "i8"),  # unless it is the last
        ("is_signaled", "i8"),
        ("status", "i8"),  # of requests.OPEN and NOT_POSTED, or how it has ended
    ],
    align=True,
)

EVENT = np.dtype(
    [("time", "i8"), ("order", "i8"), ("kind", "i4"), ("target", "i4"), ("index", "i4"), ("turn", "i4")], align=True
)

PACKET = np.dtype(
    [("source", "i4"), ("target", "i4"), ("length", "i4"), ("opcode", "i4"), ("position", "u4"), ("copies", "i4")],
    align=True,
)

FAULT = np.dtype(
    [
        ("kind", "i4"),
        ("source", "i4"),  # device, or rank
        ("target", "i4"),
        ("opcode", "i4"),
        ("ordinal", "i8"),  # of the packet on its link and of its opcode; of the event of the device
        ("value", "i8"),
        ("time", "i8"),  # ns, when it happened
    ],
    align=True,
)

TRACE = np.dtype(
    [
        ("time", "i8"),
        ("kind", "i4"),
        ("source", "i4"),
        ("target", "i4"),
        ("opcode", "i4"),
        ("position", "u4"),
        ("fate", "i4"),
        ("value", "i8"),  # ns when it arrives; status; what a kind says
        ("ordinal", "i8"),
    ],
    align=True,
)


def row_of(dtype: np.dtype):
    """Compiled function `(address of a table, index) -> record`."""
    record_type = numpy_support.from_dtype(dtype)

    @intrinsic
    def at(typing_context, table, index):
        def generate(context, builder, signature, arguments):
            offset = builder.mul(arguments[1], ir.Constant(ir.IntType(64), dtype.itemsize))
            return builder.inttoptr(builder.add(arguments[0], offset), context.get_value_type(record_type))

        return record_type(types.uint64, types.int64), generate

    return at


world_row, vertex_row, rank_row = row_of(WORLD), row_of(VERTEX), row_of(RANK)
message_row, event_row, packet_row = row_of(MESSAGE), row_of(EVENT), row_of(PACKET)
fault_row, trace_row = row_of(FAULT), row_of(TRACE)

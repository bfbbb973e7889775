"""What can go wrong in a storm, what must not come of it, and what else its tables and traces name by numbers."""

from __future__ import annotations

import enum


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
    UNKNOWN_DESTINATION = 14  # a packet to an address that no device of the job has
    LIVELOCK = 15  # so many events that the devices must be answering each other for ever
    CRASH = 16  # the process that ran the engine has died
    WRONG_PEER_LOST = 17  # a PEER_LOST names somebody whom no fault has struck, or nobody


class EventKind(enum.IntEnum):
    """What a line of a trace is about; also the kinds of events that wait in the queue."""

    PACKET = 1
    READ_DONE = 2
    RANK = 3  # a rank goes on with its program
    REBOOT = 4
    SERVE = 5  # a device goes on with its send queues after a next_step_delay
    SENT = 6  # the others are in traces only
    TIMER = 7
    JOIN = 8
    ANSWER = 9  # to a JOIN or LEAVE
    POST = 10
    COMPLETION = 11
    LEAVE = 12
    READ = 13
    FAULT_APPLIED = 14  # something that was planned happens
    VIOLATION_FOUND = 15
    NEXT_INCARNATION = 16  # the job is formed once more


class PacketFate(enum.IntEnum):
    """What becomes of a packet that is sent."""

    ARRIVES = 0
    LOST = 1
    CORRUPTED = 2  # and found out by the ICRC: dropped
    CORRUPTED_UNDETECTED = 3  # the ICRC does not cover the bit, or is not looked at
    LINK_DOWN = 4  # the link is down
    RECEIVER_GONE = 5  # the receiver is gone


class RankState(enum.IntEnum):
    """How far the program of a rank has come."""

    WAITING = 0  # has not begun
    JOINING = 1
    RUNNING = 2
    LEAVING = 3  # will leave
    GONE = 4
    DEAD = 5

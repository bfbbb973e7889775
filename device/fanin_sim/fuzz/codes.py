"""The numbers in the tables and traces of the fuzzer. numba compiles them as constants."""

import enum

from fanin_sim.kernel import tables


class FaultKind(enum.IntEnum):
    """Those before PARTITION are random, LOSS to DELAY of packets. The others are planned, at events of devices."""

    LOSS = 1
    CORRUPTION = 2  # one bit of the packet is flipped
    DUPLICATION = 3
    REORDERING = 4  # late by a short time, so that some packets overtake it
    DELAY = 5  # late by about a time-out
    LATE_RANK = 6  # a rank joins, posts or leaves later
    READ_FAILURE = 7  # a DMA read of a rank's memory fails
    PARTITION = 8  # a link, or all links of a device, carry nothing for a time
    RANK_CRASH = 9
    NIC_CRASH = 10  # with the ranks of its node
    SWITCH_CRASH = 11
    RESTART = 12  # a crashed device restarts with empty tables and another boot id
    FREEZE = 13  # a device does nothing for a time; its events are put off
    EARLY_LEAVE = 14  # a rank leaves without waiting for its requests


class Violation(enum.IntEnum):
    NOTHING = tables.NOTHING
    SLOT_MISPLACED = 1  # I3: a slot serves a position that another slot has to serve
    SLOT_WENT_BACK = 2  # I3: a slot serves an earlier position than before
    LEASE_EXCEEDED = 3  # I4
    WRONG_SLOT_COUNT = 4  # I4: the device's count of slots in use
    WRONG_RESULT = 5  # I1: a request has succeeded with wrong data
    DIFFERENT_RESULTS = 6  # I2: two receivers have different bits
    SLOT_LEAKED = 7  # I4: a job or one of its slots is left after all ranks have gone
    WRONG_COMPLETION = 8  # I5: an additional completion, or one out of order
    STRAY_WRITE = 9  # I6: a write outside of the memory of the request
    OPERATION_HANGS = 10  # I7: a request has not ended within the bound
    JOIN_REFUSED = 11  # a rank gets a status that the faults do not explain
    WRONG_STATUS = 12  # a request ends with a status that the faults do not explain
    ACTION_OVERFLOW = 13  # the engine's table of actions was too small
    UNKNOWN_DESTINATION = tables.UNKNOWN_DESTINATION
    LIVELOCK = tables.LIVELOCK
    CRASH = 16  # the process that ran the engine has died
    WRONG_PEER_LOST = 17  # a PEER_LOST reports a member that no fault has affected, or none


class EventKind(enum.IntEnum):
    """The kinds of lines in a trace; the first ones are also those of events in the event queue."""

    PACKET = 1
    READ_DONE = 2
    RANK = 3  # a rank takes its next step
    REBOOT = 4
    SERVE = 5  # a device serves its send queues after a pause
    SENT = 6  # this one and those after it are in traces only
    TIMER = 7
    JOIN = 8
    ANSWER = 9  # to a JOIN or LEAVE
    POST = 10
    COMPLETION = 11
    LEAVE = 12
    READ = 13
    FAULT_APPLIED = 14  # a planned fault
    VIOLATION_FOUND = 15
    NEXT_INCARNATION = 16  # the job is formed once more


class RankState(enum.IntEnum):
    WAITING = 0  # not started
    JOINING = 1
    RUNNING = 2
    LEAVING = 3  # is about to leave
    GONE = 4
    DEAD = 5

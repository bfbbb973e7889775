"""The numbers in the tables and traces of the simulator. numba compiles them as constants."""

import enum

from fanin_sim.kernel import tables


class FaultKind(enum.IntEnum):
    """The kinds of faults of packets, then the others."""

    LOSS = 1
    CORRUPTION = 2  # one bit of the packet is flipped
    DUPLICATION = 3
    REORDERING = 4  # late by a short time, so that some packets overtake it
    DELAY = 5  # late by more than a time-out
    LATE_PROGRAM = 6  # a program posts its next request late
    RESTART = 7  # a device starts anew, with empty tables
    WRONG_REQUEST = 8  # a program posts a request that must fail
    ABANDON = 9  # a program ends its queue pairs while requests are under way


class WrongRequest(enum.IntEnum):
    """The kinds of wrong requests."""

    NONE = 0
    REMOTE_KEY = 1
    LOCAL_KEY = 2
    MISALIGNED = 3  # an atomic
    TOO_LONG = 4  # a message longer than its receive request
    BEYOND_REGION = 5  # a write or read that leaves its region


class Violation(enum.IntEnum):
    """The violations."""

    NOTHING = tables.NOTHING
    WRONG_DATA = 1  # a request has succeeded with wrong bytes
    WRONG_MEMORY = 2  # at the end the memory of a program is not what its requests have made of it
    WRONG_COMPLETION = 3  # an additional completion, one out of order, or with wrong members
    MISSING_COMPLETION = 4  # a request has ended without one, or has not ended
    WRONG_STATUS = 5  # a status that the faults do not explain
    STRAY_WRITE = 6  # a write outside of the memory of the device's programs
    HANGS = 7  # nothing more happens, and requests are open
    LIVELOCK = tables.LIVELOCK
    ACTION_OVERFLOW = 9  # the table of actions was too small
    UNKNOWN_DESTINATION = tables.UNKNOWN_DESTINATION
    LOST_MESSAGE = 11  # a SEND of RC has succeeded, and its receiver has not got it
    CRASH = 12  # the process that ran the transport has died


class EventKind(enum.IntEnum):
    """The kinds of lines in a trace; the first ones are also those of events in the event queue."""

    PACKET = 1
    SERVE = 2  # a device works off what has arrived
    PROGRAM = 3  # the program of a side takes its next step
    RESTARTED = 4
    GIVEN_UP = 5  # the programs of a connection end their queue pairs
    CONNECTED = 6  # the connection is made anew
    SENT = 7  # this one and those after it are in traces only
    POST = 8
    COMPLETION = 9
    TIMER = 10
    FAULT_APPLIED = 11
    VIOLATION_FOUND = 12


class RequestKind(enum.IntEnum):
    """The kinds of requests that programs post."""

    SEND = 0
    SEND_WITH_IMMEDIATE = 1
    WRITE = 2
    WRITE_WITH_IMMEDIATE = 3
    READ = 4  # of memory that does not change
    READ_BACK = 5  # of memory that an earlier request of the same queue pair has written
    FETCH_ADD = 6
    COMPARE_SWAP = 7


class RequestFate(enum.IntEnum):
    """The state of a request."""

    OPEN = 0  # not posted
    POSTED = 1
    SUCCEEDED = 2
    FAILED = 3
    FORGOTTEN = 4  # its device has started anew

"""The numbers that all fuzzers share. numba compiles them as constants."""

import enum

NOTHING = 0  # no violation
UNKNOWN_DESTINATION = 14  # a packet to an address that no device has
LIVELOCK = 15  # too many events: the devices answer each other for ever


class PacketFate(enum.IntEnum):
    """The end of a packet that was sent."""

    ARRIVES = 0
    LOST = 1
    CORRUPTED = 2  # and dropped because of a wrong ICRC
    CORRUPTED_UNDETECTED = 3  # the ICRC does not cover the bit, or is not checked
    LINK_DOWN = 4
    RECEIVER_GONE = 5

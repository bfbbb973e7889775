"""A tap of a device: what its lanes do, in rings of shared memory that one reader empties.

A reader asks for it over the control socket (struct fanin_tap of abi.h) and gets a memfd with a ring for each lane: a
RING_HEAD, then units of UNIT bytes. The device writes records and the producer, the reader the consumer; both count
units, modulo 2^32. A record takes whole units and never crosses the end of the ring: a FILLER stands there. A record
without room is dropped and counted as missed, so a slow reader never delays the device.
"""

from __future__ import annotations

import enum

import numpy as np

UNIT = 32  # bytes; a power of two, as the number of units of a ring
MIN_UNITS, MAX_UNITS = 1 << 12, 1 << 21  # of one ring: 128 KiB to 64 MiB
ORDINARY_KIND = 16  # bit in a map of kinds: all but the opcodes of the offload; these have the bits from 0 on
ALL_KINDS = (1 << (ORDINARY_KIND + 1)) - 1


class Record(enum.IntEnum):
    FILLER = 0
    RECEIVED = 1  # a packet
    SENT = 2  # a packet
    SEGMENT = 3  # a step in the life of segments


class Step(enum.IntEnum):
    """Steps in the life of a segment on one device. `who` of a record: the rank or child, if it has one."""

    FREED = 0  # the slot is free, or serves another position from now on
    OPENED = 1  # the slot serves the position: the first contribution is here
    HELD = 2  # all contributions are in; the partial is kept until the result has come
    RESULT = 3  # the result is here
    POSTED = 4  # rank `who` has posted a request for `count` positions
    RANK_IN = 5  # the contribution of rank `who` is in
    NODE_IN = 6  # the contribution of the device below with bit `who`, or of the previous node of a ring, is in
    COMPLETE = 7  # no contribution is missing
    SENT = 8  # the partial was sent: to the device above, or to the next node; once more if it was lost
    WRITTEN = 9  # the result goes into the memory of rank `who`
    REDUCED = 10  # `count` positions at once, from the memory of the ranks into their memory, without slots
    ENDED = 11  # the job has ended here, and its `count` slots are free


# Each writer's words are in a cache line of their own.
RING_HEAD = np.dtype(
    {"names": ["producer", "missed", "consumer"], "formats": ["u4", "u4", "u4"], "offsets": [0, 4, 64], "itemsize": 128}
)

# Start of every record. Times are those of CLOCK_MONOTONIC.
_COMMON = [("time", "u8"), ("kind", "u1"), ("detail", "u1"), ("units", "u2")]

# Followed by the packet, BTH to ICRC. detail: why it was dropped, a row of the reasons in the device's reply; 0: it was
# not.
PACKET = np.dtype(
    [
        *_COMMON,
        ("length", "u4"),  # bytes
        ("source", "u4"),  # IPv4 addresses
        ("destination", "u4"),
        ("source_port", "u2"),
        ("identification", "u2"),  # place in the super-packet that it was part of
        ("reserved", "u4"),
    ]
)

# detail: a Step.
SEGMENT = np.dtype([*_COMMON, ("jid", "u4"), ("position", "u4"), ("mid", "u4"), ("count", "u4"), ("who", "u4")])

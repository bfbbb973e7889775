"""The numbers and tables that all fuzzers share: members of a fuzzer's WORLD record that belong to the kernel.

The WORLD record contains the address of every table. Numbers for arithmetic are signed; addresses and bitmaps are
unsigned.
"""

import enum

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numba.np import numpy_support

NOTHING = 0  # no violation
UNKNOWN_DESTINATION = 14  # a packet to an address that no device has
LIVELOCK = 15  # too many events: the devices answer each other for ever
NEVER = 2**62  # ns
EVENTS_AND_PACKETS = [
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
    ("sent", "u8"),  # u4 by link, and by what the fuzzer counts there
    ("removed_in_a_row", "u8"),  # u4 likewise
]
OUTCOME = [
    ("violation", "i8"),
    ("location", "i8"),  # device, rank or side
    ("detail", "i8"),
    ("events", "i8"),
    ("deliveries", "i8"),
]
TRACING = [
    ("trace_count", "i8"),
    ("trace", "u8"),
    ("trace_room", "i8"),  # lines; 0: no trace is kept
]
EVENT = np.dtype(
    [("time", "i8"), ("order", "i8"), ("kind", "i4"), ("target", "i4"), ("index", "i4"), ("generation", "i4")],
    align=True,
)
PACKET = np.dtype(
    [
        ("source", "i4"),
        ("target", "i4"),
        ("destination", "i8"),  # address that it was sent to
        ("length", "i4"),
        ("opcode", "i4"),
        ("position", "u4"),  # of a packet of the offload
        ("qpn", "i4"),  # and of one of ordinary traffic
        ("psn", "i4"),
        ("copies", "i4"),
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
        ("value", "i8"),  # time of arrival (ns), status, or other value, by kind
        ("ordinal", "i8"),
    ],
    align=True,
)


class PacketFate(enum.IntEnum):
    """The end of a packet that was sent."""

    ARRIVES = 0
    LOST = 1
    CORRUPTED = 2  # and dropped because of a wrong ICRC
    CORRUPTED_UNDETECTED = 3  # the ICRC does not cover the bit, or is not checked
    LINK_DOWN = 4
    RECEIVER_GONE = 5


def outcome_of(world: np.dtype) -> tuple[np.uint64, np.uint64]:
    """Start and size of the outcome in WORLD, from `violation` to `trace_count`."""
    assert world.fields is not None
    start, end = world.fields["violation"][1], world.fields["trace"][1]
    return np.uint64(start), np.uint64(end - start)


def row_accessor(dtype: np.dtype):
    """A compiled function `(address of a table, index) -> record`."""
    record_type = numpy_support.from_dtype(dtype)

    @intrinsic
    def at(typing_context, table, index):
        def generate(context, builder, signature, arguments):
            offset = builder.mul(arguments[1], ir.Constant(ir.IntType(64), dtype.itemsize))
            return builder.inttoptr(builder.add(arguments[0], offset), context.get_value_type(record_type))

        return record_type(types.uint64, types.int64), generate

    return at


event_row, packet_row, trace_row = row_accessor(EVENT), row_accessor(PACKET), row_accessor(TRACE)

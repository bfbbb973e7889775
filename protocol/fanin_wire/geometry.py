"""How a message is cut: into parts where it is long, into segments, and so into positions of the job's stream.

A message is a run of blocks, of which the last may be shorter. Blocks are cut into segments; a segment never crosses
the end of a block. Host and devices count alike, or their streams would part. The driver in C has its numbers from here.
"""

from __future__ import annotations

from fanin_wire.abi import ContributorClass, JobFlag
from fanin_wire.datatypes import datatype_by_code
from fanin_wire.operations import operation_by_code

DEFAULT_CHUNK = 4096  # bytes of payload of a segment
DEFAULT_SLOTS = 256  # seg buffers that a job asks of each device
FEWEST_SLOTS = 4  # of a lease

PART = 512 << 10  # bytes: a longer message of one block goes in parts of so many, or if these are too many ...
MOST_PARTS = 128  # ... of twice, four times ... as many: all parts find room in a send queue

CLASS_NONE, CLASS_ALL = int(ContributorClass["NONE"]), int(ContributorClass["ALL"])
WIDE = int(JobFlag["WIDE"] | JobFlag["REPRODUCIBLE_SHAPE"])  # the second implies the first


def part_length(size: int) -> int:
    """Bytes of a part of a message of one block of `size` bytes; the last may be shorter."""
    length = PART
    while length * MOST_PARTS < size:
        length *= 2
    return length


def part_lengths(size: int) -> list[int]:
    """Bytes of each part of a message of one block of `size` bytes. No bytes are no message."""
    length = part_length(size)
    return [min(length, size - offset) for offset in range(0, size, length)]


def segment_length(chunk: int, flags: int, contributors: int, op: int, dtype: int) -> int:
    """Bytes of the message that a segment carries at most, in a job with `flags` (enum fanin_job_flags).

    `chunk`, unless partials travel in twice the width: then half of it.
    """
    if flags & WIDE and contributors == CLASS_ALL and operation_by_code(op).widens(datatype_by_code(dtype)):
        return chunk // 2
    return chunk


def position_count(length: int, block: int, segment: int, contributors: int) -> int:
    """Positions of a message of `length` bytes in blocks of `block` bytes, with segments of at most `segment` bytes."""
    if contributors == CLASS_NONE:
        return 1
    if length == 0:
        return 0
    whole, rest = divmod(length, block)
    return whole * -(-block // segment) + -(-rest // segment)

"""How a message is cut: into parts where it is long, into segments, and so into positions of the job's stream.

A message is a run of blocks, of which the last may be shorter. Blocks are cut into segments; a segment never crosses
the end of a block. Host and devices count alike, or their streams would part. The
numbers of the driver in C are made from these.
"""

from __future__ import annotations

from fanin_wire.abi import ContributorClass, JobFlag
from fanin_wire.datatypes import datatype_by_code
from fanin_wire.operations import operation_by_code

PART_BYTES = 512 << 10  # a longer message of one block goes in parts of so many bytes
MAX_PARTS = 128  # of a message: all parts have room in a send queue; longer messages have longer parts

CLASS_NONE, CLASS_ALL = int(ContributorClass["NONE"]), int(ContributorClass["ALL"])
WIDE = int(JobFlag["WIDE"] | JobFlag["REPRODUCIBLE_SHAPE"])  # the second implies the first


def part_length(size: int) -> int:
    """Bytes of each part but the last of a message of `size` bytes: PART_BYTES, or 2, 4, ... times as many."""
    length = PART_BYTES
    while length * MAX_PARTS < size:
        length *= 2
    return length


def part_sizes(size: int) -> list[int]:
    """Bytes of each part of a message of `size` bytes; none for an empty message."""
    length = part_length(size)
    return [min(length, size - offset) for offset in range(0, size, length)]


def segment_length(chunk: int, flags: int, contributors: int, op: int, dtype: int) -> int:
    """Bytes of the message that a segment carries at most, in a job with `flags` (enum fanin_job_flags).

    `chunk`, unless partials travel as f32 of smaller elements: then so many whose f32 fill it.
    """
    if flags & WIDE and contributors == CLASS_ALL:
        return chunk // operation_by_code(op).widening(datatype_by_code(dtype))
    return chunk


def position_count(length: int, block: int, segment: int, contributors: int) -> int:
    """Positions of a message of `length` bytes in blocks of `block` bytes, with segments of at most `segment` bytes."""
    if contributors == CLASS_NONE:
        return 1
    if length == 0:
        return 0
    whole, rest = divmod(length, block)
    return whole * -(-block // segment) + -(-rest // segment)

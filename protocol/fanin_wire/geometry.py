"""How a message is cut: a long one into parts, then into segments, and so into positions of the job's stream.

A message is a run of blocks, the last of which may be shorter; a segment never crosses the end of a block. Host and
devices must count alike, or their streams diverge: the driver's numbers in C come from here.
"""

from __future__ import annotations

from fanin_wire.abi import ContributorClass, JobFlag
from fanin_wire.datatypes import datatype_by_code
from fanin_wire.operations import operation_by_code

PART_BYTES = 512 << 10  # a longer message of one block goes in parts of this size
MAX_PARTS = 128  # of a message, so that all fit into a send queue; longer messages have longer parts

CLASS_NONE, CLASS_ALL = int(ContributorClass.NONE), int(ContributorClass.ALL)
WIDE = JobFlag.WIDE | JobFlag.REPRODUCIBLE_SHAPE  # the second implies the first


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
    """Bytes of the message that a segment carries at most, in a job with `flags` (enum fanin_job_flags): `chunk`, or if
    partials of small floats travel as f32, as many elements as fill it as f32."""
    if flags & WIDE and contributors == CLASS_ALL:
        return chunk // operation_by_code(op).widening(datatype_by_code(dtype))
    return chunk


def position_count(length: int, block: int, segment: int, contributors: int) -> int:
    """Positions of a message of `length` bytes, in blocks of `block` and segments of at most `segment` bytes."""
    if contributors == CLASS_NONE:
        return 1
    if length == 0:
        return 0
    whole, rest = divmod(length, block)
    return whole * -(-block // segment) + -(-rest // segment)

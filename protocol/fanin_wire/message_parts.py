"""How a host cuts a long message that is one block: into parts that it posts one after the other.

All ranks know the length, so all cut it alike. The last part may be shorter.
"""

from __future__ import annotations

PART_BYTES = 512 << 10  # a longer message goes in parts of so many bytes
MAX_PARTS = 128  # of a message: all parts have room in a send queue; longer messages have longer parts


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

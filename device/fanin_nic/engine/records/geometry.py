"""The geometry of messages: a message is a run of blocks, and a segment never crosses the end of a block.

Segment k is piece k mod m of block k div m, if a whole block has m segments. The blocks that a rank brings, or wants,
are contiguous in its memory.
"""

from numba import int64

from fanin_nic.engine.records.accessors import ONE, U64, address_place, address_record, bit_of
from fanin_nic.engine.records.tables import REQUEST
from fanin_nic.native.compiled import internal
from fanin_nic.native.memory import address_of, count_bits

INLINE_DATA = U64(REQUEST.fields["inline_data"][1])  # type: ignore[index]


@internal
def is_power_of_two(value):
    return value > 0 and value & (value - 1) == 0


@internal
def quotient_up(value, divisor):
    return (U64(value) + U64(divisor) - U64(1)) // U64(divisor)


@internal
def blocks_of(length, block):
    return quotient_up(length, block) if length else U64(0)


@internal
def segments_of(length, block, segment):
    if length == 0:
        return U64(0)
    whole, rest = U64(length) // U64(block), U64(length) % U64(block)
    return whole * quotient_up(block, segment) + quotient_up(rest, segment)


@internal
def range_bytes(length, block, first, count):
    """Bytes of a range of blocks; 0 if it is empty."""
    if count == 0:
        return U64(0)
    start = U64(first) * U64(block)
    return min(U64(length), start + U64(count) * U64(block)) - start


@internal
def segment_at(request, position):
    """Number of the message's segment at a position of the request."""
    return U64(request.sid) + (U64(position - request.first) & U64(0xFFFFFFFF))


@internal
def block_number(request, segment):
    """Most messages are one block, and a division is slow."""
    return U64(0) if request.block >= request.length else U64(segment) // U64(request.per_block)


@internal
def place_in_message(request, segment):
    """Bytes of the message before a segment."""
    block = block_number(request, segment)
    within = U64(segment) - block * U64(request.per_block)
    return block * request.block + within * U64(request.segment)


@internal
def segment_length(request, segment):
    """Bytes of a segment; 0 if the request brings no data at all."""
    if request.length == 0:
        return U64(0)
    end = min(request.length, (block_number(request, segment) + U64(1)) * request.block)
    return min(U64(request.segment), end - place_in_message(request, segment))


@internal
def bytes_of(request, segments):
    """Bytes of the first `segments` segments that a request posts, perhaps only a part of its message."""
    if request.length == 0:
        return U64(0)
    first = U64(request.sid)
    end = min(request.length, place_in_message(request, first + U64(segments)))
    return end - place_in_message(request, first)


@internal
def is_in_range(request, segment, first, count):
    """Whether a segment belongs to a range of blocks."""
    if request.length == 0:
        return False
    block = block_number(request, segment)
    return U64(first) <= block < U64(first) + U64(count)


@internal
def brings(request, entry, segment):
    """Whether the rank of an entry of the address list brings data for a segment."""
    address = address_record(address_place(request, entry))
    return is_in_range(request, segment, address.source_first, address.source_blocks)


@internal
def wants(request, entry, segment):
    """Whether the rank of an entry wants the result of a segment."""
    address = address_record(address_place(request, entry))
    return is_in_range(request, segment, address.destination_first, address.destination_blocks)


@internal
def entry_of(queue, rank):
    """Index of a rank in the address lists of a queue."""
    return int64(count_bits(queue.rank_bitmap & (bit_of(rank) - ONE)))


@internal
def source_of(request, entry, segment):
    """Address of the data that the rank of an entry brings for a segment."""
    address = address_record(address_place(request, entry))
    start = address_of(request) + INLINE_DATA if request.inline else address.source
    return start + place_in_message(request, segment) - U64(address.source_first) * request.block


@internal
def destination_of(request, entry, segment):
    """Address for the result of a segment at the rank of an entry."""
    address = address_record(address_place(request, entry))
    return address.destination + place_in_message(request, segment) - U64(address.destination_first) * request.block


@internal
def is_in_place(request, entry, segment):
    """Whether the rank of an entry wants the result of a segment at the address of its data."""
    same = source_of(request, entry, segment) == destination_of(request, entry, segment)
    return same and brings(request, entry, segment)

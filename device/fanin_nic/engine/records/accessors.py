"""Accessors of the tables for compiled code, the geometry of messages, and the functions that are called by address.

A message is a run of blocks, and a segment never crosses the end of a block. Segment k is piece k mod m of block k div
m, if a whole block has m segments. The blocks that a rank brings, or wants, are contiguous in its memory.

numba compiles a function together with all its callees, anew for each caller. Half of the engine can end a job, and
every contribution can complete a segment, so these two are compiled once, as C functions (`engine.function_addresses`).
They are also the only calls that run upwards through the layers of the engine.
"""

import numpy as np
from numba import int32, int64, uint32, uint64

from fanin_nic.engine.records.actions import ACTION
from fanin_nic.engine.records.tables import CHILD, ENGINE, JOB, QUEUE, REGION, REQUEST, SLOT
from fanin_nic.native.compiled import internal, internal_for
from fanin_nic.native.memory import address_of, call_function, count_bits, load_u64, record_at, row_at, store_u64
from fanin_wire import abi, fields
from fanin_wire.abi import MAX_CHILDREN

U32 = uint32
U64 = uint64
NEVER = np.uint64(2**64 - 1)
ONE = np.uint64(1)
ZERO = np.uint64(0)
INLINE_DATA = U64(REQUEST.fields["inline_data"][1])  # type: ignore[index]
_FIRST_ADDRESS = np.uint64(REQUEST.fields["address"][1])  # type: ignore[index]
_REQUEST_SIZE = np.uint64(REQUEST.itemsize)
_ADDRESS_SIZE = np.uint64(abi.ADDRESS.itemsize)
ABORT, PROCEED = 0, 1  # rows of the table of functions

# Address lists are read by address.
REQUEST_SCALARS = REQUEST[[name for name in REQUEST.names or () if name != "address"]]
WQE_SCALARS = abi.WQE[[name for name in abi.WQE.names or () if name != "address"]]

engine_at = record_at(ENGINE)
job_at = row_at(ENGINE, "job_offset", JOB)
slot_at = row_at(ENGINE, "slot_offset", SLOT)
queue_at = row_at(ENGINE, "queue_offset", QUEUE)
region_at = row_at(ENGINE, "region_offset", REGION)
action_at = row_at(ENGINE, "action_offset", ACTION)
header_at = row_at(ENGINE, "header_offset", fields.HEADER)
child_at = row_at(ENGINE, "child_offset", CHILD)  # index: child_index(job, bit)
request_at = row_at(ENGINE, "request_offset", REQUEST_SCALARS)  # index: request_index(e, queue index, counter)
address_record = record_at(abi.ADDRESS)
wqe_at = record_at(WQE_SCALARS)


# Numbers


@internal
def bit_of(number):
    return ONE << U64(number)


@internal
def distance(a, b):
    """Positions from b to a, modulo 2^32, as a signed number."""
    return int64(int32(U32(U64(a) - U64(b))))


@internal
def is_power_of_two(value):
    return value > 0 and value & (value - 1) == 0


@internal
def quotient_up(value, divisor):
    return (U64(value) + U64(divisor) - U64(1)) // U64(divisor)


@internal_for(ENGINE, int64, int64)
def add(e, counter, number):
    address = address_of(e) + e.counter_offset + U64(counter) * U64(8)
    store_u64(address, load_u64(address) + U64(number))


@internal
def count(e, counter):
    add(e, counter, 1)


# Rows


@internal
def child_index(job, bit):
    return U64(job.index) * U64(MAX_CHILDREN) + U64(bit)


@internal
def request_index(e, queue_index, counter):
    """Row of the request with the free-running number `counter` in its queue."""
    return U64(queue_index) * U64(e.requests) + (U64(counter) & (U64(e.requests) - ONE))


@internal
def slot_index(job, position):
    """Row of the slot that serves a position of a job."""
    return U64(job.slot_base) + (U64(position) & (U64(job.slots) - ONE))


@internal
def payload_of(e, job, position):
    """Address of the payload of the slot that serves a position."""
    return buffer_of(e, job, position, 0)


@internal
def buffer_of(e, job, position, number):
    """Address of a payload buffer of the slot that serves a position; buffer 0 is the payload."""
    place = (U64(position) & (U64(job.slots) - ONE)) * U64(job.buffers) + U64(number) * U64(job.span)
    return payload_at(e, U64(job.slot_base) + place)


@internal
def payload_at(e, index):
    """Address of the payload of slot `index`."""
    return address_of(e) + e.payload_offset + U64(index) * U64(e.stride)


@internal
def address_place(request, entry):
    """Address of an entry of a request's address list, an abi.ADDRESS. The first, for most the only, is in the
    request."""
    if entry == 0:
        return address_of(request) + _FIRST_ADDRESS
    return address_of(request) + request.list + U64(entry - 1) * _ADDRESS_SIZE


@internal
def list_distance(e, index):
    """Distance from the request in row `index` to the addresses of its further ranks."""
    places = U64(index) * (U64(e.addresses) - ONE) * _ADDRESS_SIZE
    return e.list_offset + places - (e.request_offset + U64(index) * _REQUEST_SIZE)


# The geometry of messages


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


# Functions called by address


@internal_for(ENGINE, JOB, int64, int64, uint64)
def abort(e, job, status, missing_kind, missing):
    """End a job with a status, once (`jobs.abort.end_job`). missing: members as a bitmap of scope `missing_kind`."""
    call_function(entry_address(e, ABORT), address_of(e), address_of(job), U64(status), U64(missing_kind), missing)


@internal_for(ENGINE, JOB, SLOT)
def proceed(e, job, slot):
    """Go on with a slot after a contributor's bit was cleared (`segments.complete.advance_segment`)."""
    call_function(entry_address(e, PROCEED), address_of(e), address_of(job), address_of(slot), ZERO, ZERO)


@internal
def entry_address(e, entry):
    return load_u64(address_of(e) + e.entry_offset + U64(entry) * U64(8))

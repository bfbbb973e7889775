"""Copies past the caches, for data that would leave them before their next use; copies to several places at once.

An ordinary store first reads the line that it overwrites; a non-temporal one does not, and evicts no other line. Other
cores see it out of order: call `full_fence` before storing that the data are complete. Record 0023: from which length
this pays, and why not for results in place.
"""

from llvmlite import ir
from numba import types, uint64
from numba.core import cgutils
from numba.extending import intrinsic

from fanin_nic.native.compiled import compiled
from fanin_nic.native.memory import copy, load_u64

LINE = 64  # bytes of a cache line
LINE_VECTOR = ir.VectorType(ir.IntType(64), LINE // 8)


def _line_copy(past_caches: bool):
    """Intrinsic `(destinations, place, source)`: one line to byte `place` of each of a tuple of addresses. It is loaded
    once: with a load before each store the memory takes half as many."""

    @intrinsic
    def copy_line(typing_context, destinations, place, source):
        def generate(context, builder, signature, arguments):
            line = builder.load(builder.inttoptr(arguments[2], LINE_VECTOR.as_pointer()), align=1)
            for start in cgutils.unpack_tuple(builder, arguments[0]):
                target = builder.inttoptr(builder.add(start, arguments[1]), LINE_VECTOR.as_pointer())
                store = builder.store(line, target, align=LINE if past_caches else 1)
                if past_caches:
                    store.set_metadata("nontemporal", builder.module.add_metadata([ir.Constant(ir.IntType(32), 1)]))
            return context.get_dummy_value()

        return types.void(destinations, types.uint64, types.uint64), generate

    return copy_line


_stream_line = _line_copy(past_caches=True)  # to where lines begin
_copy_line = _line_copy(past_caches=False)


@compiled
def stream(destination, source, length):
    """Copy `length` bytes past the caches; the areas must not overlap."""
    before = min(uint64(-destination) & uint64(LINE - 1), uint64(length))
    copy(destination, source, before)
    place, end = before, before + (uint64(length) - before) // uint64(LINE) * uint64(LINE)
    while place < end:
        _stream_line((destination,), place, source + place)
        place += uint64(LINE)
    copy(destination + end, source + end, uint64(length) - end)


@compiled
def _to_each(destinations, source, length, past_caches):
    """Copy `length` bytes to each of a tuple of addresses, line by line."""
    lines, unaligned, place = uint64(length) & ~uint64(LINE - 1), uint64(0), uint64(0)
    for destination in destinations:
        unaligned |= destination & uint64(LINE - 1)
    if past_caches and unaligned:
        for destination in destinations:
            stream(destination, source, length)
        return
    while place < lines:
        if past_caches:
            _stream_line(destinations, place, source + place)
        else:
            _copy_line(destinations, place, source + place)
        place += uint64(LINE)
    for destination in destinations:
        copy(destination + lines, source + lines, uint64(length) - lines)


@compiled
def spread(places, stride, count, offset, source, length, past_caches):
    """Copy `length` bytes to `count` destinations, to several at once, so that the memory writes to all of them.
    places: address of the first destination's address; the next is `stride` bytes further. offset: added to each
    destination."""
    place, left = uint64(places), count
    while left >= 4:
        one, two = load_u64(place) + offset, load_u64(place + stride) + offset
        three = load_u64(place + uint64(2) * stride) + offset
        four = load_u64(place + uint64(3) * stride) + offset
        _to_each((one, two, three, four), source, length, past_caches)
        place, left = place + uint64(4) * stride, left - 4
    if left >= 2:
        _to_each((load_u64(place) + offset, load_u64(place + stride) + offset), source, length, past_caches)
        place, left = place + uint64(2) * stride, left - 2
    if left:
        _to_each((load_u64(place) + offset,), source, length, past_caches)

"""Copies past the caches: for data that nobody will look at before they are out of the caches anyway.

An ordinary store first reads the line that it overwrites; a non-temporal one does not, and drives nothing else out. It
is seen by other cores out of order: `full_fence` comes before whatever says that the data are there.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types, uint64
from numba.extending import intrinsic

from fanin_nic.native.compiled import compiled
from fanin_nic.native.memory import copy

LINE = 64  # bytes of a cache line
LINE_VECTOR = ir.VectorType(ir.IntType(64), LINE // 8)


@intrinsic
def _stream_line(typing_context, destination, source):
    """Copy one line to `destination`, where a line begins."""

    def generate(context, builder, signature, arguments):
        target, origin = (builder.inttoptr(argument, LINE_VECTOR.as_pointer()) for argument in arguments)
        store = builder.store(builder.load(origin, align=1), target, align=LINE)
        store.set_metadata("nontemporal", builder.module.add_metadata([ir.Constant(ir.IntType(32), 1)]))
        return context.get_dummy_value()

    return types.void(types.uint64, types.uint64), generate


@compiled
def stream(destination, source, length):
    """Copy `length` bytes past the caches; the areas must not overlap."""
    before = min(uint64(-destination) & uint64(LINE - 1), uint64(length))
    copy(destination, source, before)
    place, end = before, before + (uint64(length) - before) // uint64(LINE) * uint64(LINE)
    while place < end:
        _stream_line(destination + place, source + place)
        place += uint64(LINE)
    copy(destination + end, source + end, uint64(length) - end)

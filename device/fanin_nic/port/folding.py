"""CRC-32 of long messages by carry-less multiplication, as LLVM vector code.

A message is read as a polynomial; an accumulator of 128 bits stands for all that was read so far. To move it on by D
bits it is multiplied by x^D modulo the polynomial, two carry-less products, and the next 128 bits are added. Several
accumulators run side by side, and a vector register holds up to four of them (`vpclmulqdq`).
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from fanin_nic.port.polynomial import fold_multipliers

WORD = ir.IntType(64)
LANE_BITS = 128
LANE_BYTES = 16


def _product(builder, left, right, selector: int):
    """Carry-less products of the low (selector 0x00) or high (0x11) words of each lane."""
    bits = left.type.count * 64
    name = "llvm.x86.pclmulqdq" + (f".{bits}" if bits > LANE_BITS else "")
    function_type = ir.FunctionType(left.type, [left.type, left.type, ir.IntType(8)])
    function = cgutils.get_or_insert_function(builder.module, function_type, name)
    return builder.call(function, [left, right, ir.Constant(ir.IntType(8), selector)])


def _fold(builder, accumulator, distance: int, data):
    """Each lane of the accumulator, moved on by `distance` bits, plus data."""
    lanes = accumulator.type.count // 2
    constants = ir.Constant(accumulator.type, list(fold_multipliers(distance)) * lanes)
    low = _product(builder, accumulator, constants, 0x00)
    high = _product(builder, accumulator, constants, 0x11)
    return builder.xor(builder.xor(low, high), data)


def _load(builder, address, offset: int, vector):
    pointer = builder.inttoptr(builder.add(address, WORD(offset)), vector.as_pointer())
    return builder.load(pointer, align=1)


def _lane(builder, vector, index: int):
    mask = ir.Constant(ir.VectorType(ir.IntType(32), 2), [2 * index, 2 * index + 1])
    return builder.shuffle_vector(vector, vector, mask)


def _first(builder, state, address, bits: int, accumulators: int):
    """The accumulators loaded with the start of the message, the CRC register added to its first 32 bits."""
    vector = ir.VectorType(WORD, bits // 64)
    loaded = [_load(builder, address, i * bits // 8, vector) for i in range(accumulators)]
    register = builder.insert_element(ir.Constant(vector, None), builder.zext(state, WORD), ir.IntType(32)(0))
    return [builder.xor(loaded[0], register), *loaded[1:]]


def _fold_groups(builder, slots, address, groups, bits: int):
    """Fold all further groups (one vector for each accumulator) into the accumulators."""
    group_bytes = len(slots) * bits // 8
    with cgutils.for_range(builder, groups, WORD(1), intp=WORD) as loop:
        cursor = builder.add(address, builder.mul(loop.index, WORD(group_bytes)))
        for i, slot in enumerate(slots):
            data = _load(builder, cursor, i * bits // 8, slot.type.pointee)
            builder.store(_fold(builder, builder.load(slot), len(slots) * bits, data), slot)


def _merge(builder, slots, bits: int):
    """One 128-bit accumulator from all accumulators and lanes, in the order of the message."""
    vector, *others = [builder.load(slot) for slot in slots]
    for other in others:
        vector = _fold(builder, vector, bits, other)
    lane = _lane(builder, vector, 0)
    for index in range(1, bits // LANE_BITS):
        lane = _fold(builder, lane, LANE_BITS, _lane(builder, vector, index))
    return lane


def _fold_blocks(builder, slot, address, first, count):
    """Fold the blocks of 16 bytes `first` to `count` - 1, one after the other."""
    with cgutils.for_range(builder, count, first, intp=WORD) as loop:
        cursor = builder.add(address, builder.mul(loop.index, WORD(LANE_BYTES)))
        data = _load(builder, cursor, 0, slot.type.pointee)
        builder.store(_fold(builder, builder.load(slot), LANE_BITS, data), slot)


def folded_with(bits: int, accumulators: int):
    """Intrinsic `(state: uint32, address: uint64, blocks: uint64) -> (low, high)` for vectors of `bits` bits.

    Folds `blocks` blocks of 16 bytes, at least accumulators * bits / 128 of them, into the last 128 bits.
    """
    group_blocks = accumulators * bits // LANE_BITS

    @intrinsic
    def folded(typing_context, state, address, blocks):
        def generate(context, builder, signature, arguments):
            register, start, count = arguments
            slots = [
                cgutils.alloca_once_value(builder, vector)
                for vector in _first(builder, register, start, bits, accumulators)
            ]
            groups = builder.udiv(count, WORD(group_blocks))
            _fold_groups(builder, slots, start, groups, bits)
            lane = cgutils.alloca_once_value(builder, _merge(builder, slots, bits))
            if group_blocks > 1:
                _fold_blocks(builder, lane, start, builder.mul(groups, WORD(group_blocks)), count)
            vector = builder.load(lane)
            words = [builder.extract_element(vector, ir.IntType(32)(i)) for i in range(2)]
            return context.make_tuple(builder, signature.return_type, words)

        return types.UniTuple(types.uint64, 2)(types.uint32, types.uint64, types.uint64), generate

    return folded


@intrinsic
def carryless_multiply(typing_context, left, right):
    """Carry-less product of two 64-bit words as (low, high) words."""

    def generate(context, builder, signature, arguments):
        empty = ir.Constant(ir.VectorType(WORD, 2), None)
        first, second = [builder.insert_element(empty, argument, ir.IntType(32)(0)) for argument in arguments]
        product = _product(builder, first, second, 0x00)
        words = [builder.extract_element(product, ir.IntType(32)(i)) for i in range(2)]
        return context.make_tuple(builder, signature.return_type, words)

    return types.UniTuple(types.uint64, 2)(types.uint64, types.uint64), generate

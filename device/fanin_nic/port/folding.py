"""CRC-32 of long messages by carry-less multiplication, and the constants of its polynomial (IEEE 802.3).

Polynomials over GF(2) are Python integers, bit n the coefficient of x^n. *Reflected*: the lowest bit is the highest
coefficient, as on Ethernet. The method is Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ
Instruction", Intel 2009, as LLVM vector code: `pclmulqdq` of x86, `pmull` of Arm.

A message is a polynomial. An accumulator of 128 bits stands for the part that was read. It moves on by D bits when it
is multiplied by x^D modulo the polynomial, in two carry-less products, and the next 128 bits are added. Several
accumulators run side by side; a vector register holds up to four (`vpclmulqdq`).
"""

import functools

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

DEGREE = 32
POLYNOMIAL = 0x1_04C1_1DB7
WORD = ir.IntType(64)
LANE_BITS = 128
LANE_BYTES = 16
HEADER_BLOCKS = 6  # of IPv4, UDP, BTH and CETH


# Polynomials


def reflect(value: int, bits: int) -> int:
    """`value` with its lowest `bits` bits reversed."""
    return int(f"{value:0{bits}b}"[::-1], 2)


def divide(dividend: int, divisor: int = POLYNOMIAL) -> tuple[int, int]:
    """Quotient and remainder of polynomials."""
    quotient = 0
    while dividend.bit_length() >= divisor.bit_length():
        shift = dividend.bit_length() - divisor.bit_length()
        quotient |= 1 << shift
        dividend ^= divisor << shift
    return quotient, dividend


def multiplier(exponent: int) -> int:
    """Reflected 64-bit factor that multiplies a reflected 64-bit polynomial by x^exponent, modulo the polynomial. It
    makes up for the factor x by which a carry-less product of reflected words is too high."""
    return reflect(divide(1 << (exponent - 1))[1], 64)


def multiply(one: int, other: int) -> int:
    """Product of two polynomials, modulo the polynomial."""
    product = 0
    for exponent in range(other.bit_length()):
        if other >> exponent & 1:
            product ^= one << exponent
    return divide(product)[1]


def inverse_power(exponent: int) -> int:
    """x^-exponent modulo the polynomial, reflected."""
    result, power = 1, POLYNOMIAL >> 1  # x^-1: the polynomial has the coefficient 1, so x divides it + 1
    while exponent:
        if exponent & 1:
            result = multiply(result, power)
        power, exponent = multiply(power, power), exponent >> 1
    return reflect(result, DEGREE)


def fold_multipliers(distance: int) -> tuple[int, int]:
    """Factors for the low and high word of a 128-bit accumulator that moves on by `distance` bits."""
    return multiplier(distance + 64), multiplier(distance)


# Barrett reduction of a 64-bit remainder to 32 bits; both have 33 bits, reflected
BARRETT_QUOTIENT = reflect(divide(1 << (2 * DEGREE))[0], DEGREE + 1)
BARRETT_POLYNOMIAL = reflect(POLYNOMIAL, DEGREE + 1)


def byte_tables(count: int) -> np.ndarray:
    """Tables of slicing-by-`count`, uint32 [count, 256]: [k, b] is the register after byte b and k zeros, from 0."""
    tables = np.empty((count, 256), np.uint32)
    tables[0] = [reflect(divide(reflect(byte, 8) << DEGREE)[1], DEGREE) for byte in range(256)]
    for k in range(1, count):
        tables[k] = (tables[k - 1] >> 8) ^ tables[0][tables[k - 1] & 0xFF]
    return tables


# Vector code


def _arm_product(builder, left, right, selector: int):
    """The product of one lane. LLVM makes `pmull2` of the high words without moving them."""
    words = [builder.extract_element(vector, ir.IntType(32)(selector & 1)) for vector in (left, right)]
    function_type = ir.FunctionType(ir.VectorType(ir.IntType(8), LANE_BYTES), [WORD, WORD])
    function = cgutils.get_or_insert_function(builder.module, function_type, "llvm.aarch64.neon.pmull64")
    return builder.bitcast(builder.call(function, words), left.type)


def _product(builder, left, right, selector: int):
    """Carry-less products of the low (selector 0x00) or high (0x11) words of each lane."""
    bits = left.type.count * 64
    if builder.module.triple.startswith("aarch64"):
        assert bits == LANE_BITS, "Arm has registers of one lane"
        return _arm_product(builder, left, right, selector)
    name = "llvm.x86.pclmulqdq" + (f".{bits}" if bits > LANE_BITS else "")
    function_type = ir.FunctionType(left.type, [left.type, left.type, ir.IntType(8)])
    function = cgutils.get_or_insert_function(builder.module, function_type, name)
    return builder.call(function, [left, right, ir.Constant(ir.IntType(8), selector)])


def _moved(builder, accumulator, distances: list[int]):
    """Each lane of an accumulator, moved on by its own distance in bits; 0 clears it."""
    multipliers = [word for distance in distances for word in (fold_multipliers(distance) if distance else (0, 0))]
    constants = ir.Constant(accumulator.type, multipliers)
    return builder.xor(_product(builder, accumulator, constants, 0x00), _product(builder, accumulator, constants, 0x11))


def _fold(builder, accumulator, distance: int, data):
    """Each lane of the accumulator, moved on by `distance` bits, plus data."""
    return builder.xor(_moved(builder, accumulator, accumulator.type.count // 2 * [distance]), data)


def _load(builder, address, offset, vector):
    """Vector at an address; `offset`: bytes, a number or a value."""
    offset = WORD(offset) if isinstance(offset, int) else offset
    return builder.load(builder.inttoptr(builder.add(address, offset), vector.as_pointer()), align=1)


def _lane(builder, vector, index: int):
    mask = ir.Constant(ir.VectorType(ir.IntType(32), 2), [2 * index, 2 * index + 1])
    return builder.shuffle_vector(vector, vector, mask)


def _pair(builder, low, high):
    vector = builder.insert_element(ir.Constant(ir.VectorType(WORD, 2), None), low, ir.IntType(32)(0))
    return builder.insert_element(vector, high, ir.IntType(32)(1))


def _words(builder, vector):
    return [builder.extract_element(vector, ir.IntType(32)(i)) for i in range(2)]


def _sum(builder, vectors: list):
    return functools.reduce(builder.xor, vectors)


def _first(builder, before, address, bits: int, accumulators: int):
    """The accumulators with the start of the message, `before` added to its first 16 bytes."""
    vector = ir.VectorType(WORD, bits // 64)
    loaded = [_load(builder, address, i * bits // 8, vector) for i in range(accumulators)]
    lanes = ir.Constant(ir.VectorType(ir.IntType(32), vector.count), [0, 1, *(vector.count - 2) * [2]])
    widened = builder.shuffle_vector(before, ir.Constant(before.type, None), lanes)
    return [builder.xor(loaded[0], widened), *loaded[1:]]


def _fold_groups(builder, slots, address, first, end, bits: int):
    """Fold the groups `first` to `end` - 1, a vector for each accumulator, into the accumulators."""
    group_bytes = len(slots) * bits // 8
    with cgutils.for_range(builder, end, first, intp=WORD) as loop:
        cursor = builder.add(address, builder.mul(loop.index, WORD(group_bytes)))
        for i, slot in enumerate(slots):
            data = _load(builder, cursor, i * bits // 8, slot.type.pointee)
            builder.store(_fold(builder, builder.load(slot), len(slots) * bits, data), slot)


def _one_vector(builder, slots, bits: int):
    """One accumulator from several consecutive ones, all moved at once."""
    *others, last = [builder.load(slot) for slot in slots]
    lanes = bits // LANE_BITS
    moved = [_moved(builder, other, lanes * [(len(others) - i) * bits]) for i, other in enumerate(others)]
    return _sum(builder, [*moved, last])


def _one_lane(builder, vector, bits: int):
    """128 bits from the lanes of an accumulator, all moved at once."""
    lanes = bits // LANE_BITS
    last = _lane(builder, vector, lanes - 1)
    if lanes == 1:
        return last
    moved = _moved(builder, vector, [(lanes - 1 - i) * LANE_BITS for i in range(lanes)])
    return _sum(builder, [*(_lane(builder, moved, i) for i in range(lanes - 1)), last])


# Intrinsics of compiled code


def folded_with(bits: int, accumulators: int):
    """Intrinsic `(low, high, address, blocks) -> (low, high)`, all uint64, for vectors of `bits` bits.

    Folds `blocks` blocks of 16 bytes, at least accumulators * bits / 128, into the last 128 bits. `low` and `high` are
    added to the first: a register (and 0), or the result of `behind` for the blocks before.
    """
    lanes = bits // LANE_BITS

    @intrinsic
    def folded(typing_context, low, high, address, blocks):
        def generate(context, builder, signature, arguments):
            *before, start, count = arguments
            slots = [
                cgutils.alloca_once_value(builder, vector)
                for vector in _first(builder, _pair(builder, *before), start, bits, accumulators)
            ]
            groups = builder.udiv(count, WORD(accumulators * lanes))
            _fold_groups(builder, slots, start, WORD(1), groups, bits)
            vector = cgutils.alloca_once_value(builder, _one_vector(builder, slots, bits))
            if accumulators > 1:
                whole = builder.udiv(count, WORD(lanes))
                _fold_groups(builder, [vector], start, builder.mul(groups, WORD(accumulators)), whole, bits)
            lane = cgutils.alloca_once_value(builder, _one_lane(builder, builder.load(vector), bits))
            if lanes > 1:
                _fold_groups(builder, [lane], start, builder.mul(whole, WORD(lanes)), count, LANE_BITS)
            return context.make_tuple(builder, signature.return_type, _words(builder, builder.load(lane)))

        return types.UniTuple(types.uint64, 2)(*[types.uint64] * 4), generate

    return folded


@intrinsic
def behind(typing_context, low, high):
    """The contribution of 128 folded bits to the 16 bytes behind them."""

    def generate(context, builder, signature, arguments):
        moved = _moved(builder, _pair(builder, *arguments), [LANE_BITS])
        return context.make_tuple(builder, signature.return_type, _words(builder, moved))

    return types.UniTuple(types.uint64, 2)(types.uint64, types.uint64), generate


@intrinsic
def folded_headers(typing_context, state, words, address):
    """Fold six blocks of 16 bytes at once: first `words`, a tuple of uint64, then those at an address. `(state: uint32,
    words, address: uint64) -> (low, high)`"""
    count = len(words)

    def generate(context, builder, signature, arguments):
        register, given, start = arguments
        given = cgutils.unpack_tuple(builder, given)
        given[0] = builder.xor(given[0], builder.zext(register, WORD))
        blocks = [_pair(builder, given[i], given[i + 1]) for i in range(0, count, 2)]
        left = HEADER_BLOCKS - len(blocks)
        blocks += [_load(builder, start, i * LANE_BYTES, ir.VectorType(WORD, 2)) for i in range(left)]
        *others, last = blocks
        moved = [_moved(builder, block, [(len(others) - i) * LANE_BITS]) for i, block in enumerate(others)]
        return context.make_tuple(builder, signature.return_type, _words(builder, _sum(builder, [*moved, last])))

    return types.UniTuple(types.uint64, 2)(types.uint32, words, types.uint64), generate


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

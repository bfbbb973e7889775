"""Kernels of the floats, of the complex types, which are two floats, and of the small floats (f16, bf16).

Rounding is to nearest, ties to even. A NaN stays a NaN, but may become another. LLVM's instructions for f16 become
those of the processor (F16C on x86, all of AArch64), or calls of a function that a just-in-time compiler does not find;
there the conversion works on the bits.

SUM, PROD and MEAN of small floats take an accumulator of f32 and data of the small type. WIDEN makes the accumulator
f32, in place, before the second contribution; NARROW rounds it back once, at the device's output. MIN and MAX work on
the small type itself.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, register_jitable

from fanin_nic.engine.kernels.unit import Kernel, elements, floats_at
from fanin_wire.abi import DType, Op

SHORT, INTEGER, HALF, FLOAT = ir.IntType(16), ir.IntType(32), ir.HalfType(), ir.FloatType()
UINT32 = types.uint32
Instructions = Callable[[ir.IRBuilder, ir.Value], ir.Value]
BITS = {8: types.uint8, 16: types.uint16}  # storage of the elements, by width


class Format(NamedTuple):
    """A floating-point format by its bits: the integer of its width, infinity, the canonical NaN."""

    integer: types.Type
    infinity: int
    nan: int


F32 = Format(types.int32, 0x7F800000, 0x7FC00000)
F64 = Format(types.int64, 0x7FF0000000000000, 0x7FF8000000000000)
F16 = Format(types.int16, 0x7C00, 0x7E00)
BF16 = Format(types.int16, 0x7F80, 0x7FC0)


# f16 and bf16 to f32 and back


def has_f16(context) -> bool:
    """Whether the target processor converts f16."""
    triple, _, features = context.codegen().magic_tuple()
    return triple.startswith("aarch64") or "+f16c" in features.split(",")


def conversion(argument: types.Type, result: types.Type, instructions: Instructions, otherwise: Callable | None = None):
    """Compiled function of one argument, made of LLVM's `instructions`; if the processor lacks f16, of `otherwise`."""

    @intrinsic
    def convert(typing_context, value):
        def generate(context, builder, signature, arguments):
            if otherwise is None or has_f16(context):
                return instructions(builder, arguments[0])
            return context.compile_internal(builder, otherwise, signature, arguments)

        return result(argument), generate

    return convert


bits_of = conversion(types.float32, types.uint32, lambda builder, value: builder.bitcast(value, INTEGER))
f32_of_bits = conversion(types.uint32, types.float32, lambda builder, bits: builder.bitcast(bits, FLOAT))


@register_jitable
def f32_of_bf16(value):
    """bf16 is the upper half of f32."""
    return f32_of_bits(UINT32(value) << UINT32(16))


@register_jitable
def bf16_of_f32(value):
    """The upper half, rounded; not for NaN."""
    bits = bits_of(value)
    return types.uint16((bits + UINT32(0x7FFF) + ((bits >> UINT32(16)) & UINT32(1))) >> UINT32(16))


def f32_of_f16_by_bits(value):
    """The digits and exponent in the places of f32 are a number 2^112 times too small, also if subnormal."""
    magnitude = UINT32(value & 0x7FFF) << UINT32(13)
    scaled = bits_of(f32_of_bits(magnitude) * types.float32(2.0**112))
    infinite = UINT32(0x7F800000) | magnitude
    return f32_of_bits((infinite if magnitude >= UINT32(0x0F800000) else scaled) | UINT32(value & 0x8000) << UINT32(16))


def f16_of_f32_by_bits(value):
    """Not for NaN. A sum with 1/2 rounds to 2^-24, the unit of subnormal f16, whose digits are then the last ones."""
    bits = bits_of(value)
    magnitude = bits & UINT32(0x7FFFFFFF)
    subnormal = bits_of(f32_of_bits(magnitude) + types.float32(0.5)) - UINT32(0x3F000000)
    normal = (magnitude - UINT32(112 << 23) + UINT32(0xFFF) + ((magnitude >> UINT32(13)) & UINT32(1))) >> UINT32(13)
    rounded = subnormal if magnitude < UINT32(113 << 23) else min(normal, UINT32(0x7C00))
    infinite = magnitude >= UINT32(143 << 23)
    return types.uint16((UINT32(0x7C00) if infinite else rounded) | (bits >> UINT32(16)) & UINT32(0x8000))


f32_of_f16 = conversion(
    types.uint16,
    types.float32,
    lambda builder, value: builder.fpext(builder.bitcast(value, HALF), FLOAT),
    f32_of_f16_by_bits,
)
f16_of_f32 = conversion(
    types.float32,
    types.uint16,
    lambda builder, value: builder.bitcast(builder.fptrunc(value, HALF), SHORT),
    f16_of_f32_by_bits,
)


# Kernels of floats and complex types


def _sum(accumulator, data, count):
    a, b = elements(accumulator, count), elements(data, count)
    for i in range(count):
        total = a[i] + b[i]
        a[i] = total if total == total else np.nan


def _complex_sum(accumulator, data, count):
    a, b = elements(accumulator, 2 * count), elements(data, 2 * count)
    for i in range(2 * count):
        total = a[i] + b[i]
        a[i] = total if total == total else np.nan


def _product(accumulator, data, count):
    a, b = elements(accumulator, count), elements(data, count)
    for i in range(count):
        product = a[i] * b[i]
        a[i] = product if product == product else np.nan


def _divide(real):
    def divide(accumulator, divisor, count):
        a, by = elements(accumulator, count), real(elements(divisor, 1)[0])
        for i in range(count):
            quotient = a[i] / by
            a[i] = quotient if quotient == quotient else np.nan

    return divide


def _extreme(form: Format, largest: bool):
    """MIN or MAX over the bits as signed integers. With the other bits of negative numbers flipped they are in order,
    -0 below +0; flipped again they are the numbers."""
    integer, infinity, nan = form.integer, form.infinity, form.nan
    sign_shift, magnitude = integer.bitwidth - 1, (1 << (integer.bitwidth - 1)) - 1
    choose = max if largest else min

    def extreme_of(accumulator, data, count):
        a, b = elements(accumulator, count), elements(data, count)
        for i in range(count):
            x, y = a[i], b[i]
            x_key, y_key = integer(x ^ ((x >> sign_shift) & magnitude)), integer(y ^ ((y >> sign_shift) & magnitude))
            key = choose(x_key, y_key)
            unordered = max(integer(x & magnitude), integer(y & magnitude)) > infinity
            a[i] = nan if unordered else key ^ ((key >> sign_shift) & magnitude)

    return extreme_of


DIVIDE_F32 = Kernel(_divide(types.float32), types.float32, types.int64)
DIVIDE_F64 = Kernel(_divide(types.float64), types.float64, types.int64)
FLOATS = {DType.F32: (types.float32, F32), DType.F64: (types.float64, F64)}
COMPLEX = {DType.C64: types.float32, DType.C128: types.float64}


def float_kernels(finish: int) -> dict[tuple[int, int], Kernel]:
    """Kernels by (row, dtype); `finish` is the row of MEAN's division."""
    kernels = {(finish, DType.F32): DIVIDE_F32, (finish, DType.F64): DIVIDE_F64}
    for dtype, (real, form) in FLOATS.items():
        kernels[Op.SUM, dtype] = kernels[Op.MEAN, dtype] = Kernel(_sum, real, real)
        kernels[Op.PROD, dtype] = Kernel(_product, real, real)
        kernels[Op.MIN, dtype] = Kernel(_extreme(form, largest=False), form.integer, form.integer)
        kernels[Op.MAX, dtype] = Kernel(_extreme(form, largest=True), form.integer, form.integer)
    for dtype, real in COMPLEX.items():
        kernels[Op.SUM, dtype] = Kernel(_complex_sum, real, real)
    return kernels


# Kernels of small floats


def _small_sum(widen):
    def accumulate(accumulator, data, count):
        a, b = elements(accumulator, count), elements(data, count)
        for i in range(count):
            total = a[i] + widen(b[i])
            a[i] = total if total == total else np.nan

    return accumulate


def _small_product(widen):
    def accumulate(accumulator, data, count):
        a, b = elements(accumulator, count), elements(data, count)
        for i in range(count):
            product = a[i] * widen(b[i])
            a[i] = product if product == product else np.nan

    return accumulate


def _widen(widen):
    def widen_in_place(accumulator, data, count):
        small, wide = elements(accumulator, count), elements(floats_at(accumulator), count)
        end = count
        while end > 0:  # the upper half first, so that results lie behind what is still to be read
            start = (end + 1) // 2 if end > 1 else 0
            source, target = small[start:end], wide[start:end]
            for i in range(end - start):
                value = widen(source[i])
                target[i] = value if value == value else np.nan
            end = start

    return widen_in_place


def _narrow(narrow, nan: int):
    def narrow_in_place(accumulator, data, count):
        small, wide = elements(accumulator, count), elements(floats_at(accumulator), count)
        start, end = 0, min(count, 1)
        while start < count:  # twice as many each time, so that results lie before what is still to be read
            source, target = wide[start:end], small[start:end]
            for i in range(end - start):
                value = source[i]
                target[i] = narrow(value) if value == value else nan
            start, end = end, min(count, 2 * end)

    return narrow_in_place


SMALL_FLOATS = {DType.F16: (F16, f32_of_f16, f16_of_f32), DType.BF16: (BF16, f32_of_bf16, bf16_of_f32)}


def small_float_kernels(finish: int, widen: int, narrow: int) -> dict[tuple[int, int], Kernel]:
    """Kernels by (row, dtype); the arguments are the rows of MEAN's division, WIDEN and NARROW."""
    kernels = {}
    for dtype, (form, to_f32, from_f32) in SMALL_FLOATS.items():
        bits = BITS[form.integer.bitwidth]
        kernels[Op.SUM, dtype] = kernels[Op.MEAN, dtype] = Kernel(_small_sum(to_f32), types.float32, bits)
        kernels[Op.PROD, dtype] = Kernel(_small_product(to_f32), types.float32, bits)
        kernels[Op.MIN, dtype] = Kernel(_extreme(form, largest=False), form.integer, form.integer)
        kernels[Op.MAX, dtype] = Kernel(_extreme(form, largest=True), form.integer, form.integer)
        kernels[finish, dtype] = DIVIDE_F32
        kernels[widen, dtype] = Kernel(_widen(to_f32), bits, bits)
        kernels[narrow, dtype] = Kernel(_narrow(from_f32, form.nan), bits, bits)
    return kernels

"""Kernels of the integers, and of bool, which is a byte: arithmetic, bitwise and logical operations."""

import math

from numba import types

from fanin_nic.engine.kernels.unit import Kernel, elements
from fanin_wire.abi import DType, Op

INTEGERS = {
    DType.I8: types.int8,
    DType.I16: types.int16,
    DType.I32: types.int32,
    DType.I64: types.int64,
    DType.U8: types.uint8,
    DType.U16: types.uint16,
    DType.U32: types.uint32,
    DType.U64: types.uint64,
}
UNSIGNED = {8: types.uint8, 16: types.uint16, 32: types.uint32, 64: types.uint64}


def _sum(accumulator, data, count):
    a, b = elements(accumulator, count), elements(data, count)
    for i in range(count):
        a[i] += b[i]


def _product(accumulator, data, count):
    a, b = elements(accumulator, count), elements(data, count)
    for i in range(count):
        a[i] *= b[i]


def _min(accumulator, data, count):
    a, b = elements(accumulator, count), elements(data, count)
    for i in range(count):
        a[i] = min(a[i], b[i])


def _max(accumulator, data, count):
    a, b = elements(accumulator, count), elements(data, count)
    for i in range(count):
        a[i] = max(a[i], b[i])


def _divide(element, real):
    """MEAN of integers that are exact in the float type `real`. A quotient that is not whole is at least 1 / divisor
    away from any whole number, more than `real` rounds by; so its whole part is the true one, toward zero."""

    def divide(accumulator, divisor, count):
        a, by = elements(accumulator, count), real(elements(divisor, 1)[0])
        for i in range(count):
            a[i] = element(real(a[i]) / by)

    return divide


def _divide_u64(accumulator, divisor, count):
    """MEAN of 64-bit integers, for which no processor has a vector division: an estimate, wrong by less than 2^14,
    corrected by the quotient of the rest, which is exact in f64. Divisors below 2^39."""
    a, by = elements(accumulator, count), elements(divisor, 1)[0]
    if by < 2:
        return
    real_by = types.float64(by)
    reciprocal = 1.0 / real_by
    for i in range(count):
        estimate = types.int64(types.uint64(types.float64(a[i]) * reciprocal))
        rest = types.int64(a[i]) - estimate * by
        a[i] = types.uint64(estimate + math.floor(types.float64(rest) / real_by))


def _divide_i64(accumulator, divisor, count):
    """`_divide_u64` on magnitudes; that of the least integer is right as unsigned."""
    a, by = elements(accumulator, count), elements(divisor, 1)[0]
    if by < 2:
        return
    real_by = types.float64(by)
    reciprocal = 1.0 / real_by
    for i in range(count):
        sign = a[i] >> 63
        magnitude = (a[i] ^ sign) - sign
        estimate = types.int64(types.float64(types.uint64(magnitude)) * reciprocal)
        rest = magnitude - estimate * by
        quotient = estimate + math.floor(types.float64(rest) / real_by)
        a[i] = (quotient ^ sign) - sign


def _division(element):
    if element.bitwidth == 64:
        return _divide_i64 if element.signed else _divide_u64
    return _divide(element, types.float32 if element.bitwidth < 32 else types.float64)


def integer_kernels(finish: int) -> dict[tuple[int, int], Kernel]:
    """Kernels by (row, dtype); `finish` is the row of MEAN's division."""
    kernels = {}
    for dtype, element in INTEGERS.items():
        word = UNSIGNED[element.bitwidth]
        kernels[Op.SUM, dtype] = kernels[Op.MEAN, dtype] = Kernel(_sum, word, word)
        kernels[Op.PROD, dtype] = Kernel(_product, word, word)
        kernels[Op.MIN, dtype] = Kernel(_min, element, element)
        kernels[Op.MAX, dtype] = Kernel(_max, element, element)
        kernels[finish, dtype] = Kernel(_division(element), element, types.int64)
    return kernels


def _logical_and(accumulator, data, count):
    a, b = elements(accumulator, count), elements(data, count)
    for i in range(count):
        a[i] = (a[i] != 0) & (b[i] != 0)


def _logical_or(accumulator, data, count):
    a, b = elements(accumulator, count), elements(data, count)
    for i in range(count):
        a[i] = (a[i] | b[i]) != 0


def _logical_xor(accumulator, data, count):
    a, b = elements(accumulator, count), elements(data, count)
    for i in range(count):
        a[i] = (a[i] != 0) != (b[i] != 0)


def _bitwise_and(accumulator, data, count):
    a, b = elements(accumulator, count), elements(data, count)
    for i in range(count):
        a[i] &= b[i]


def _bitwise_or(accumulator, data, count):
    a, b = elements(accumulator, count), elements(data, count)
    for i in range(count):
        a[i] |= b[i]


def _bitwise_xor(accumulator, data, count):
    a, b = elements(accumulator, count), elements(data, count)
    for i in range(count):
        a[i] ^= b[i]


LOGICAL = {Op.LAND: _logical_and, Op.LOR: _logical_or, Op.LXOR: _logical_xor}
BITWISE = {Op.BAND: _bitwise_and, Op.BOR: _bitwise_or, Op.BXOR: _bitwise_xor}


def logical_kernels() -> dict[tuple[int, int], Kernel]:
    """Kernels by (op, dtype)."""
    words = {dtype: UNSIGNED[element.bitwidth] for dtype, element in INTEGERS.items()}
    kernels = {
        (op, dtype): Kernel(function, word, word)
        for op, function in (LOGICAL | BITWISE).items()
        for dtype, word in words.items()
    }
    kernels |= {(op, DType.BOOL): Kernel(function, UNSIGNED[8], UNSIGNED[8]) for op, function in LOGICAL.items()}
    return kernels

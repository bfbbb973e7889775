"""Kernels of f32, f64 and complex types. MIN and MAX compare bits as integers: -0 is below +0, and it vectorises."""

from typing import NamedTuple

import numpy as np
from numba import types

from fanin_nic.engine.kernels.unit import Kernel, elements
from fanin_wire.abi import DType, Op


class Format(NamedTuple):
    """A floating-point format by its bits: the integer of its width, infinity, the canonical NaN."""

    integer: types.Type
    infinity: int
    nan: int


F32 = Format(types.int32, 0x7F800000, 0x7FC00000)
F64 = Format(types.int64, 0x7FF0000000000000, 0x7FF8000000000000)
FLOATS = {DType.F32: (types.float32, F32), DType.F64: (types.float64, F64)}
COMPLEX = {DType.C64: types.float32, DType.C128: types.float64}


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


def extreme(form: Format, largest: bool):
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


def float_kernels(finish: int) -> dict[tuple[int, int], Kernel]:
    """Kernels by (row, dtype); `finish` is the row of MEAN's division."""
    kernels = {(finish, DType.F32): DIVIDE_F32, (finish, DType.F64): DIVIDE_F64}
    for dtype, (real, form) in FLOATS.items():
        kernels[Op.SUM, dtype] = kernels[Op.MEAN, dtype] = Kernel(_sum, real, real)
        kernels[Op.PROD, dtype] = Kernel(_product, real, real)
        kernels[Op.MIN, dtype] = Kernel(extreme(form, largest=False), form.integer, form.integer)
        kernels[Op.MAX, dtype] = Kernel(extreme(form, largest=True), form.integer, form.integer)
    for dtype, real in COMPLEX.items():
        kernels[Op.SUM, dtype] = Kernel(_complex_sum, real, real)
    return kernels

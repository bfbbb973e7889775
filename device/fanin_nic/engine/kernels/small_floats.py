"""Kernels of the small floats, f16 and bf16, which are computed in f32.

SUM, PROD and MEAN take an accumulator of f32 and data of the small type. WIDEN makes the accumulator f32, in place,
before the second contribution; NARROW rounds it back once, at the device's output. MIN and MAX work on the small type
itself.
"""

import numpy as np
from numba import types

from fanin_nic.engine.kernels.conversions import bf16_of_f32, f16_of_f32, f32_of_bf16, f32_of_f16
from fanin_nic.engine.kernels.floats import DIVIDE_F32, Format, extreme
from fanin_nic.engine.kernels.unit import Kernel, elements, floats_at
from fanin_wire.abi import DType, Op

F16 = Format(types.int16, 0x7C00, 0x7E00)
BF16 = Format(types.int16, 0x7F80, 0x7FC0)
BITS = {8: types.uint8, 16: types.uint16}  # storage of the elements, by width


def _sum(widen):
    def accumulate(accumulator, data, count):
        a, b = elements(accumulator, count), elements(data, count)
        for i in range(count):
            total = a[i] + widen(b[i])
            a[i] = total if total == total else np.nan

    return accumulate


def _product(widen):
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
        kernels[Op.SUM, dtype] = kernels[Op.MEAN, dtype] = Kernel(_sum(to_f32), types.float32, bits)
        kernels[Op.PROD, dtype] = Kernel(_product(to_f32), types.float32, bits)
        kernels[Op.MIN, dtype] = Kernel(extreme(form, largest=False), form.integer, form.integer)
        kernels[Op.MAX, dtype] = Kernel(extreme(form, largest=True), form.integer, form.integer)
        kernels[finish, dtype] = DIVIDE_F32
        kernels[widen, dtype] = Kernel(_widen(to_f32), bits, bits)
        kernels[narrow, dtype] = Kernel(_narrow(from_f32, form.nan), bits, bits)
    return kernels

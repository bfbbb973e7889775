"""The vector unit: one C function for each op and type, kept in a table of addresses.

Signature `void (void *accumulator, void *data, int64_t count)`; in the FINISH row (MEAN's division) `data` points to
the divisor, an int64. Rules (SPEC.md, Arithmetic): integers wrap; the NaN that arithmetic gives is the canonical one;
MIN and MAX order -0 below +0 and give NaN if either input is NaN. MIN and MAX of floats therefore compare the bit
patterns as integers, which also lets them vectorise.
"""

from __future__ import annotations

import functools

import numpy as np
from numba import carray, cfunc, types

from fanin_nic.engine.tables import MAX_DTYPES, MAX_OPS
from fanin_wire.abi import DType, Op


def _sum_integer(accumulator, data, count):
    a, b = carray(accumulator, count), carray(data, count)
    for i in range(count):
        a[i] += b[i]


def _sum_float(accumulator, data, count):
    a, b = carray(accumulator, count), carray(data, count)
    for i in range(count):
        total = a[i] + b[i]
        a[i] = total if total == total else np.nan


def _min_integer(accumulator, data, count):
    a, b = carray(accumulator, count), carray(data, count)
    for i in range(count):
        a[i] = min(a[i], b[i])


def _max_integer(accumulator, data, count):
    a, b = carray(accumulator, count), carray(data, count)
    for i in range(count):
        a[i] = max(a[i], b[i])


def _extreme_float(bits: int, infinity: int, nan: int, largest: bool):
    """MIN or MAX over the bit patterns of IEEE 754 numbers of `bits` bits, as signed integers."""
    sign_shift, magnitude = bits - 1, (1 << (bits - 1)) - 1

    def extreme(accumulator, data, count):
        a, b = carray(accumulator, count), carray(data, count)
        for i in range(count):
            x, y = a[i], b[i]
            x_key, y_key = x ^ ((x >> sign_shift) & magnitude), y ^ ((y >> sign_shift) & magnitude)
            keep = x_key > y_key if largest else x_key < y_key
            chosen = x if keep else y
            unordered = (x & magnitude) > infinity or (y & magnitude) > infinity
            a[i] = nan if unordered else chosen

    return extreme


def _mean_float(numba_type):
    def mean(accumulator, divisor, count):
        a, by = carray(accumulator, count), numba_type(carray(divisor, 1)[0])
        for i in range(count):
            quotient = a[i] / by
            a[i] = quotient if quotient == quotient else np.nan

    return mean


def _mean_integer(accumulator, divisor, count):
    a, by = carray(accumulator, count), carray(divisor, 1)[0]
    for i in range(count):
        value = a[i]
        quotient = value // by
        if value < 0 and quotient * by != value:  # // rounds down, the device divides toward zero
            quotient += 1
        a[i] = quotient


WIDEN, NARROW = MAX_OPS - 2, MAX_OPS - 3
FINISH = MAX_OPS - 1  # row of the table with what a completing device does to a MEAN

# (op, dtype): type of the elements as the function sees them, function
_F32 = (32, 0x7F800000, 0x7FC00000)
_F64 = (64, 0x7FF0000000000000, 0x7FF8000000000000)
KERNELS = {
    (Op.SUM, DType.F32): (types.float32, _sum_float),
    (Op.SUM, DType.F64): (types.float64, _sum_float),
    (Op.SUM, DType.I32): (types.int32, _sum_integer),
    (Op.SUM, DType.I64): (types.int64, _sum_integer),
    (Op.MIN, DType.F32): (types.int32, _extreme_float(*_F32, largest=False)),
    (Op.MIN, DType.F64): (types.int64, _extreme_float(*_F64, largest=False)),
    (Op.MIN, DType.I32): (types.int32, _min_integer),
    (Op.MIN, DType.I64): (types.int64, _min_integer),
    (Op.MAX, DType.F32): (types.int32, _extreme_float(*_F32, largest=True)),
    (Op.MAX, DType.F64): (types.int64, _extreme_float(*_F64, largest=True)),
    (Op.MAX, DType.I32): (types.int32, _max_integer),
    (Op.MAX, DType.I64): (types.int64, _max_integer),
    (FINISH, DType.F32): (types.float32, _mean_float(types.float32)),
    (FINISH, DType.F64): (types.float64, _mean_float(types.float64)),
    (FINISH, DType.I32): (types.int32, _mean_integer),
    (FINISH, DType.I64): (types.int64, _mean_integer),
}
ITEMSIZE = {DType.F32: 4, DType.F64: 8, DType.I32: 4, DType.I64: 8}


def _compile(row: int, numba_type, function):
    data = types.int64 if row == FINISH else numba_type
    signature = types.void(types.CPointer(numba_type), types.CPointer(data), types.int64)
    return cfunc(signature, cache=True)(function)


@functools.cache
def kernels() -> dict[tuple[int, int], object]:
    """The compiled functions by (row, dtype); compiled, or read from the cache, at the first call."""
    compiled = {(int(row), int(dtype)): _compile(row, *rest) for (row, dtype), rest in KERNELS.items()}
    for dtype in DType:
        if (int(Op.SUM), int(dtype)) in compiled:
            compiled[int(Op.MEAN), int(dtype)] = compiled[int(Op.SUM), int(dtype)]
    return compiled


def kernel_table() -> np.ndarray:
    """Addresses of the kernels, uint64 of shape (MAX_OPS, MAX_DTYPES); 0 where op and type have none."""
    table = np.zeros((MAX_OPS, MAX_DTYPES), np.uint64)
    for place, kernel in kernels().items():
        table[place] = kernel.address  # type: ignore[attr-defined]
    return table


def itemsize_table() -> np.ndarray:
    """Bytes of an element by dtype, uint64 of shape (MAX_DTYPES,); 0 for a type without kernels."""
    table = np.zeros(MAX_DTYPES, np.uint64)
    for dtype, size in ITEMSIZE.items():
        table[dtype] = size
    return table

"""Kernels of MINLOC and MAXLOC on pairs of value and index.

A pair is one 64-bit word, or two if its value has 64 bits, because a vector unit compares whole lanes. An integer key
orders the values: -0 and +0 are equal, NaN is beyond infinity.
"""

from typing import NamedTuple

from numba import njit, types

from fanin_nic.engine.kernels.floats import F32, F64, Format
from fanin_nic.engine.kernels.unit import Kernel, elements
from fanin_wire.abi import DType, Op


class Value(NamedTuple):
    """Bits of a pair's value, and its format if it is a float."""

    bits: int
    form: Format | None = None


PAIRS = {
    DType.F32_I32: Value(32, F32),
    DType.F64_I32: Value(64, F64),
    DType.I16_I32: Value(16),
    DType.I32_I32: Value(32),
    DType.I64_I32: Value(64),
}
LEAST, GREATEST = -(1 << 63), (1 << 63) - 1


def _float_choice(value: Value, form: Format, largest: bool):
    """Compiled function (value, index, value, index) -> (value, index); floats are sign-extended bits."""
    magnitude_mask, infinity, nan = (1 << (value.bits - 1)) - 1, form.infinity, form.nan
    nan_key = GREATEST if largest else LEAST

    @njit
    def key_of(bits):
        magnitude, sign = bits & magnitude_mask, bits >> 63
        return nan_key if magnitude > infinity else (magnitude ^ sign) - sign

    @njit
    def choose(x, x_index, y, y_index):
        x_key, y_key = key_of(x), key_of(y)
        before = x_key > y_key if largest else x_key < y_key
        keep = before | ((x_key == y_key) & (x_index < y_index))
        chosen = x if keep else y
        if (x_key == y_key) & (x_index == y_index):  # the same number, or zeros: MINLOC keeps -0, MAXLOC +0
            chosen = x & y if largest else x | y
        if (x_key == nan_key) | (y_key == nan_key):
            chosen = nan
        return chosen, x_index if keep else y_index

    return choose


def _integer_choice(largest: bool):
    @njit
    def choose(x, x_index, y, y_index):
        before = x > y if largest else x < y
        keep = before | ((x == y) & (x_index < y_index))
        return (x, x_index) if keep else (y, y_index)

    return choose


def _one_word(bits: int, choose):
    """Kernel on pairs of 8 bytes: value low, index high. Padding between them becomes zero."""
    unused, mask = 64 - bits, (1 << bits) - 1

    def locate(accumulator, data, count):
        a, b = elements(accumulator, count), elements(data, count)
        for i in range(count):
            x, y = (a[i] << unused) >> unused, (b[i] << unused) >> unused
            value, index = choose(x, a[i] >> 32, y, b[i] >> 32)
            a[i] = (value & mask) | (index << 32)

    return locate


def _two_words(choose):
    """Kernel on pairs of 16 bytes. The padding behind the index becomes zero."""

    def locate(accumulator, data, count):
        a, b = elements(accumulator, 2 * count), elements(data, 2 * count)
        for i in range(count):
            x_index, y_index = (a[2 * i + 1] << 32) >> 32, (b[2 * i + 1] << 32) >> 32
            value, index = choose(a[2 * i], x_index, b[2 * i], y_index)
            a[2 * i] = value
            a[2 * i + 1] = index & 0xFFFFFFFF

    return locate


def pair_kernels() -> dict[tuple[int, int], Kernel]:
    """Kernels by (op, dtype)."""
    kernels = {}
    for dtype, value in PAIRS.items():
        for op in (Op.MINLOC, Op.MAXLOC):
            largest = op == Op.MAXLOC
            choose = _float_choice(value, value.form, largest) if value.form else _integer_choice(largest)
            locate = _two_words(choose) if value.bits == 64 else _one_word(value.bits, choose)
            kernels[op, dtype] = Kernel(locate, types.int64, types.int64)
    return kernels

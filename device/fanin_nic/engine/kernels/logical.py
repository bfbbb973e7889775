"""Kernels of the logical and bitwise operations: of integers by width, and of bool, which is a byte."""

from fanin_nic.engine.kernels.integers import INTEGERS, UNSIGNED
from fanin_nic.engine.kernels.unit import Kernel, elements
from fanin_wire.abi import DType, Op


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

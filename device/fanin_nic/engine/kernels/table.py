"""The table of kernels: a row for each op and three more, a column for each type.

| row | accumulator | data | does |
| --- | --- | --- | --- |
| an op | elements | elements | accumulator op data |
| SUM, PROD, MEAN of f16, bf16 | f32 | elements | the same, in f32 |
| FINISH | elements; f32 of f16, bf16 | divisor, an int64 | the division of MEAN |
| WIDEN of f16, bf16 | elements, afterwards f32 | not read | makes the accumulator f32, in place |
| NARROW of f16, bf16 | f32, afterwards elements | not read | rounds it back |
"""

import functools

import numpy as np

from fanin_nic.engine.kernels.floats import float_kernels, small_float_kernels
from fanin_nic.engine.kernels.integers import integer_kernels, logical_kernels
from fanin_nic.engine.kernels.pairs import pair_kernels
from fanin_nic.engine.kernels.unit import Kernel, addresses_of
from fanin_nic.native.compiled import compiled
from fanin_wire.datatypes import DATATYPES

MAX_OPS = 24  # rows
MAX_DTYPES = 32  # columns
FINISH = MAX_OPS - 1
WIDEN = MAX_OPS - 2
NARROW = MAX_OPS - 3

KERNELS: dict[tuple[int, int], Kernel] = {
    **integer_kernels(FINISH),
    **logical_kernels(),
    **float_kernels(FINISH),
    **small_float_kernels(FINISH, WIDEN, NARROW),
    **pair_kernels(),
}
DISTINCT = list(dict.fromkeys(KERNELS.values()))  # several types share a kernel

_store_addresses = addresses_of(DISTINCT)


@compiled
def _addresses(table):
    """Store the addresses of DISTINCT at address `table`. This compiles, caches and loads all kernels."""
    _store_addresses(table)


@functools.cache
def kernel_addresses() -> dict[Kernel, int]:
    """The first call compiles them or loads them from the cache."""
    addresses = np.zeros(len(DISTINCT), np.uint64)
    _addresses(np.uint64(addresses.ctypes.data))
    return dict(zip(DISTINCT, addresses.tolist(), strict=True))


def kernel_table() -> np.ndarray:
    """Addresses of the kernels, uint64 of shape (MAX_OPS, MAX_DTYPES); 0 where op and type have none."""
    table = np.zeros((MAX_OPS, MAX_DTYPES), np.uint64)
    addresses = kernel_addresses()
    for place, kernel in KERNELS.items():
        table[place] = addresses[kernel]
    return table


def itemsize_table() -> np.ndarray:
    """Bytes of an element by dtype, uint64 of shape (MAX_DTYPES,); 0 for a code without a type."""
    table = np.zeros(MAX_DTYPES, np.uint64)
    for datatype in DATATYPES:
        table[datatype.code] = datatype.itemsize
    return table

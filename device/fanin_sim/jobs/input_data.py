"""Input data for simulated collectives, whose result depends on the order of reduction or does not."""

import numpy as np

from fanin_wire.arithmetic import narrow
from fanin_wire.datatypes import DataType, Family


def order_independent(datatype: DataType, operation: str, shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Contributions whose result does not depend on the order of reduction or on intermediate rounding.

    They are small whole numbers: a bf16 holds the sum of 256 of them exactly. For PROD of floats they are 1 and -1.
    """
    generator = np.random.default_rng(seed)
    if datatype.family == Family.INTEGER:
        limits = np.iinfo(datatype.numpy)
        return generator.integers(limits.min, limits.max, shape, datatype.numpy, endpoint=True)
    small = generator.integers(-1, 1, shape, np.int8, endpoint=True)
    if operation == "PROD":
        small |= 1
    if datatype.family == Family.PAIR:
        pairs = np.zeros(shape, datatype.numpy)
        pairs["value"], pairs["index"] = small, generator.integers(0, 1000, shape)
        return pairs
    if datatype.family == Family.COMPLEX:
        return (small + 1j * generator.integers(-1, 1, shape, np.int8, endpoint=True)).astype(datatype.numpy)
    return _stored(small, datatype)


def order_dependent(datatype: DataType, shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Floats of many magnitudes: the bits of their sum depend on the order of addition."""
    generator = np.random.default_rng(seed)
    values = np.zeros(shape, datatype.numpy)
    for row in values:
        numbers = generator.standard_normal(shape[-1], np.float32)
        row[:] = _stored(np.ldexp(numbers, generator.integers(-6, 6, shape[-1], np.int32)), datatype)
    return values


def _stored(numbers: np.ndarray, datatype: DataType) -> np.ndarray:
    if datatype.family == Family.SMALL_FLOAT:
        return narrow(numbers.astype("<f4"), datatype)
    return numbers.astype(datatype.numpy)

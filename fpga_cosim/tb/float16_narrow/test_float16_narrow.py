"""f32 is rounded to f16 and bf16 as the oracle rounds: each 16-bit number, each tie between two, their neighbours."""

import numpy as np
import pytest

from fanin_wire import arithmetic
from fanin_wire.datatypes import datatype_by_name
from fpga_cosim.tb.float_units import narrowed
from fpga_cosim.tb.floats import operands


def ties(name: str) -> np.ndarray:
    """Bits of every number of the type, of the ties above them, and of the f32 numbers beside both."""
    datatype = datatype_by_name(name)
    numbers = np.arange(1 << 16, dtype=np.uint16).view(datatype.numpy)
    exact = arithmetic.widen(numbers, datatype).view(np.uint32)
    following = np.append(exact[1:], exact[:1]).view(np.float32).astype(np.float64)
    with np.errstate(all="ignore"):
        middle = ((exact.view(np.float32).astype(np.float64) + following) / 2).astype(np.float32).view(np.uint32)
    either = np.concatenate([exact, middle])
    return np.concatenate([either - np.uint32(1), either, either + np.uint32(1)])


@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_roundings(vectors: int, generator: np.random.Generator, name: str) -> None:
    numbers = np.concatenate([ties(name), *operands(generator, vectors)])
    expected = arithmetic.narrow(numbers.view(np.float32), datatype_by_name(name)).view(np.uint16)
    rounded = narrowed(numbers, name)
    wrong = np.flatnonzero(rounded != expected)
    assert not len(wrong), [f"{numbers[i]:08x}: {rounded[i]:04x}, not {expected[i]:04x}" for i in wrong[:10]]

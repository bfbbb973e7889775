"""The float units give the bits of Berkeley SoftFloat, which shares nothing with numpy."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import softfloatpy as softfloat

from fpga_cosim.tb.divisors import divisors
from fpga_cosim.tb.float_units import narrowed, products, quotients, sums, widened
from fpga_cosim.tb.floats import operands

SMALL = {"f16": softfloat.Float16, "bf16": softfloat.BFloat16}
TO_SMALL = {"f16": softfloat.f32_to_f16, "bf16": softfloat.f32_to_bf16}
FROM_SMALL = {"f16": softfloat.f16_to_f32, "bf16": softfloat.bf16_to_f32}


def numbers(bits: np.ndarray, kind: type = softfloat.Float32) -> Iterator[Any]:
    """SoftFloat's numbers with these bits."""
    size = bits.itemsize
    octets = bits.astype(bits.dtype.newbyteorder(">")).tobytes()
    return (kind.from_bytes(octets[at : at + size]) for at in range(0, len(octets), size))


def computed(function: Callable[..., Any], *columns: Iterator[Any], dtype: str = ">u4") -> np.ndarray:
    """The bits of SoftFloat's result for each row, rounded to nearest even."""
    return np.frombuffer(b"".join(result.to_bytes() for result in map(function, *columns)), dtype)


def compare(seen: np.ndarray, expected: np.ndarray, *given: np.ndarray) -> None:
    wrong = np.flatnonzero(seen != expected)[:10]
    assert not len(wrong), [(*(f"{each[i]:x}" for each in given), f"{seen[i]:x}", f"{expected[i]:x}") for i in wrong]


@pytest.mark.parametrize(("unit", "function"), [(sums, softfloat.f32_add), (products, softfloat.f32_mul)])
def test_sums_and_products(
    vectors: int, generator: np.random.Generator, unit: Callable[..., np.ndarray], function: Callable[..., Any]
) -> None:
    a, b = operands(generator, vectors)
    compare(unit(a, b), computed(function, numbers(a), numbers(b)), a, b)


def test_quotients(vectors: int, generator: np.random.Generator) -> None:
    """By numbers of ranks."""
    a, _ = operands(generator, vectors)
    by = generator.choice(divisors(generator, 1000), len(a))
    ranks = map(softfloat.ui32_to_f32, numbers(by.astype("<u4"), softfloat.UInt32))
    compare(quotients(a, by), computed(softfloat.f32_div, numbers(a), ranks), a, by)


@pytest.mark.parametrize("name", SMALL)
def test_roundings(vectors: int, generator: np.random.Generator, name: str) -> None:
    wide, _ = operands(generator, vectors)
    compare(narrowed(wide, name), computed(TO_SMALL[name], numbers(wide), dtype=">u2"), wide)


@pytest.mark.parametrize("name", SMALL)
def test_every_small_number(name: str) -> None:
    narrow = np.arange(1 << 16, dtype=np.uint16)
    compare(widened(narrow, name), computed(FROM_SMALL[name], numbers(narrow, SMALL[name])), narrow)

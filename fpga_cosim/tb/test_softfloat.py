"""The units for floats give the bits of Berkeley SoftFloat, too, which shares nothing with numpy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import softfloatpy as softfloat

from fpga_cosim.tb.divisors import as_f32, divisors, reciprocal_of
from fpga_cosim.tb.floats import operands
from fpga_cosim.tb.verilated import Module, pipelined

# Clocks of the units
ADD, MULTIPLY, DIVIDE, NARROW = 7, 7, 6, 2
DROPPED = 14  # bits of a reciprocal that the divider does not look at
SMALL = {"f16": softfloat.Float16, "bf16": softfloat.BFloat16}
TO_SMALL = {"f16": softfloat.f32_to_f16, "bf16": softfloat.f32_to_bf16}
FROM_SMALL = {"f16": softfloat.f16_to_f32, "bf16": softfloat.bf16_to_f32}


def numbers(bits: np.ndarray, kind: type = softfloat.Float32) -> Iterator[Any]:
    """SoftFloat's numbers with these bits."""
    size = bits.itemsize
    octets = bits.astype(bits.dtype.newbyteorder(">")).tobytes()
    return (kind.from_bytes(octets[at : at + size]) for at in range(0, len(octets), size))


def computed(function: Callable[..., Any], *columns: Iterator[Any], dtype: str = ">u4") -> np.ndarray:
    """The bits of what SoftFloat computes of each row, with its rounding to nearest even."""
    return np.frombuffer(b"".join(result.to_bytes() for result in map(function, *columns)), dtype)


def compare(seen: np.ndarray, expected: np.ndarray, *given: np.ndarray) -> None:
    """No bit differs."""
    wrong = np.flatnonzero(seen != expected)[:10]
    assert not len(wrong), [(*(f"{each[i]:x}" for each in given), f"{seen[i]:x}", f"{expected[i]:x}") for i in wrong]


@pytest.mark.parametrize(
    ("name", "result", "clocks", "function"),
    [
        ("float32_add", "sum", ADD, softfloat.f32_add),
        ("float32_multiply", "product", MULTIPLY, softfloat.f32_mul),
    ],
)
def test_sums_and_products(
    vectors: int,
    generator: np.random.Generator,
    name: str,
    result: str,
    clocks: int,
    function: Callable[..., Any],
) -> None:
    module, (a, b) = Module(name), operands(generator, vectors)
    inputs = np.zeros(len(a), module.inputs)
    inputs["advance"], inputs["a"], inputs["b"] = 1, a, b
    compare(pipelined(module, inputs, clocks)[result], computed(function, numbers(a), numbers(b)), a, b)


def test_quotients(vectors: int, generator: np.random.Generator) -> None:
    """By numbers of ranks."""
    module, (a, _) = Module("float32_divide"), operands(generator, vectors)
    by = generator.choice(divisors(generator, 1000), len(a))
    table = {divisor: reciprocal_of(as_f32(divisor)) for divisor in set(by.tolist())}
    inputs = np.zeros(len(a), module.inputs)
    inputs["valid"], inputs["a"] = 1, a
    inputs["reciprocal"] = np.array([table[each][0] >> DROPPED for each in by.tolist()], np.uint64)
    inputs["shift"] = [table[each][1] for each in by.tolist()]
    ranks = map(softfloat.ui32_to_f32, numbers(by.astype("<u4"), softfloat.UInt32))
    expected = computed(softfloat.f32_div, numbers(a), ranks)
    compare(pipelined(module, inputs, DIVIDE)["quotient"], expected, a, by)


@pytest.mark.parametrize("name", SMALL)
def test_roundings(vectors: int, generator: np.random.Generator, name: str) -> None:
    module, (wide, _) = Module("float16_narrow"), operands(generator, vectors)
    inputs = np.zeros(len(wide), module.inputs)
    inputs["advance"], inputs["is_bf16"], inputs["wide"] = 1, name == "bf16", wide
    expected = computed(TO_SMALL[name], numbers(wide), dtype=">u2")
    compare(pipelined(module, inputs, NARROW)["narrow"], expected, wide)


@pytest.mark.parametrize("name", SMALL)
def test_every_small_number(name: str) -> None:
    module, narrow = Module("float16_widen"), np.arange(1 << 16, dtype=np.uint16)
    inputs = np.zeros(len(narrow), module.inputs)
    inputs["is_bf16"], inputs["narrow"] = name == "bf16", narrow
    compare(module.run(inputs)["wide"], computed(FROM_SMALL[name], numbers(narrow, SMALL[name])), narrow)

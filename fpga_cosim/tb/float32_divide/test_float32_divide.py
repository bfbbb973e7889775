"""The f32 divider equals the oracle of MEAN, bit for bit."""

import numpy as np

from fanin_wire import arithmetic
from fpga_cosim.tb.divisors import divisors, reciprocal_of
from fpga_cosim.tb.float_units import DIVIDE, DROPPED, quotients
from fpga_cosim.tb.floats import operands
from fpga_cosim.tb.verilated import Module

RANKS = range(2, 65)


def check(a: np.ndarray, by: np.ndarray) -> None:
    seen = quotients(a, by)
    with np.errstate(all="ignore"):
        expected = arithmetic.canonical(a.view(np.float32) / by.astype(np.float32)).view(np.uint32)
    wrong = np.flatnonzero(seen != expected)
    assert not len(wrong), [f"{a[i]:08x} / {by[i]}: {seen[i]:08x}, not {expected[i]:08x}" for i in wrong[:10]]


def test_quotients(vectors: int, generator: np.random.Generator) -> None:
    a = np.concatenate(operands(generator, vectors))
    check(a, generator.choice(divisors(generator, 1000), len(a)))


def test_quotients_by_few_ranks(vectors: int, generator: np.random.Generator) -> None:
    """Numbers near multiples of the divisor and of halves of it: exact quotients, ties, and their neighbours."""
    by = generator.choice(RANKS, vectors)
    multiple = (by * generator.integers(1, 1 << 25, vectors)).astype(np.float32) * np.float32(0.5)
    scaled = np.ldexp(multiple, generator.integers(-160, 90, vectors)).astype(np.float32)
    check(scaled.view(np.uint32) + generator.integers(0, 3, vectors, np.uint32), by)


def test_any_clock_may_be_left_out(generator: np.random.Generator) -> None:
    """A quotient stays until the next one."""
    module = Module("float32_divide")
    a = generator.choice(np.concatenate(operands(generator, 400)), 2000)
    inputs = np.zeros(len(a), module.inputs)
    inputs["valid"] = generator.integers(0, 2, len(a))
    inputs["a"], (reciprocal, inputs["shift"]) = a, reciprocal_of(3)
    inputs["reciprocal"] = reciprocal >> DROPPED
    seen = module.run(inputs)["quotient"]
    with np.errstate(all="ignore"):
        expected = arithmetic.divide(a.view(np.float32), 3).view(np.uint32)
    came = np.flatnonzero(inputs["valid"][:-DIVIDE])
    assert (seen[came + DIVIDE] == expected[came]).all()

"""The f32 divider equals the oracle of MEAN, bit for bit."""

from __future__ import annotations

import numpy as np

from fanin_wire import arithmetic
from fpga_cosim.tb.divisors import as_f32, divisors, reciprocal_of
from fpga_cosim.tb.floats import operands
from fpga_cosim.tb.verilated import Module, pipelined

LATENCY, DROPPED, RANKS = 6, 14, range(2, 65)  # clocks; bits of a reciprocal that it does not look at


def check(module: Module, a: np.ndarray, by: np.ndarray) -> None:
    """Quotients of an array of bits by an array of divisors."""
    table = {divisor: reciprocal_of(as_f32(divisor)) for divisor in set(by.tolist())}
    inputs = np.zeros(len(a), module.inputs)
    inputs["valid"], inputs["a"] = 1, a
    inputs["reciprocal"] = np.array([table[each][0] >> DROPPED for each in by.tolist()], np.uint64)
    inputs["shift"] = [table[each][1] for each in by.tolist()]
    quotients = pipelined(module, inputs, LATENCY)["quotient"]
    with np.errstate(all="ignore"):
        expected = arithmetic.canonical(a.view(np.float32) / by.astype(np.float32)).view(np.uint32)
    wrong = np.flatnonzero(quotients != expected)
    assert not len(wrong), [f"{a[i]:08x} / {by[i]}: {quotients[i]:08x}, not {expected[i]:08x}" for i in wrong[:10]]


def test_quotients(vectors: int, generator: np.random.Generator) -> None:
    a = np.concatenate(operands(generator, vectors))
    check(Module("float32_divide"), a, generator.choice(divisors(generator, 1000), len(a)))


def test_quotients_by_few_ranks(vectors: int, generator: np.random.Generator) -> None:
    """Numbers near multiples of the divisor and of halves of it: exact quotients, ties, and their neighbours."""
    by = generator.choice(RANKS, vectors)
    multiple = (by * generator.integers(1, 1 << 25, vectors)).astype(np.float32) * np.float32(0.5)
    scaled = np.ldexp(multiple, generator.integers(-160, 90, vectors)).astype(np.float32)
    check(Module("float32_divide"), scaled.view(np.uint32) + generator.integers(0, 3, vectors, np.uint32), by)


def test_any_clock_may_be_left_out(generator: np.random.Generator) -> None:
    """A quotient stays until the next one."""
    module = Module("float32_divide")
    a = generator.choice(np.concatenate(operands(generator, 400)), 2000)
    inputs = np.zeros(len(a), module.inputs)
    inputs["valid"] = generator.integers(0, 2, len(a))
    inputs["a"], (reciprocal, inputs["shift"]) = a, reciprocal_of(3)
    inputs["reciprocal"] = reciprocal >> DROPPED
    quotients = module.run(inputs)["quotient"]
    with np.errstate(all="ignore"):
        expected = arithmetic.divide(a.view(np.float32), 3).view(np.uint32)
    came = np.flatnonzero(inputs["valid"][:-LATENCY])
    assert (quotients[came + LATENCY] == expected[came]).all()

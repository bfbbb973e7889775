"""The f32 adder equals the oracle of SUM, bit for bit."""

import numpy as np

from fanin_wire.operations import operation_by_name
from fpga_cosim.tb.float_units import ADD, sums
from fpga_cosim.tb.floats import operands
from fpga_cosim.tb.verilated import Module


def test_sums(vectors: int, generator: np.random.Generator) -> None:
    a, b = operands(generator, vectors)
    seen = sums(a, b)
    expected = operation_by_name("SUM").oracle(np.stack([a, b]).view(np.float32)).view(np.uint32)
    wrong = np.flatnonzero(seen != expected)
    assert not len(wrong), [f"{a[i]:08x} + {b[i]:08x}: {seen[i]:08x}, not {expected[i]:08x}" for i in wrong[:10]]


def test_stands_still_without_advance(generator: np.random.Generator) -> None:
    module = Module("float32_add")
    a, b = operands(generator, 400)
    steps = generator.integers(0, 2, 4 * len(a))
    inputs = np.zeros(len(steps), module.inputs)
    place = np.minimum(np.cumsum(steps) - steps, len(a) - 1)
    inputs["advance"], inputs["a"], inputs["b"] = steps, a[place], b[place]
    seen = module.run(inputs)["sum"]
    expected = operation_by_name("SUM").oracle(np.stack([a, b]).view(np.float32)).view(np.uint32)
    ready = np.flatnonzero((place >= ADD) & (place < len(a) - 1))
    assert len(ready) > len(a)
    assert (seen[ready] == expected[place[ready] - ADD]).all()

"""Products of integers of each size equal the oracle, also where sizes change from clock to clock."""

import numpy as np
import pytest

from fanin_wire.datatypes import DATATYPES, DataType, Family
from fanin_wire.operations import operation_by_name
from fpga_cosim.tb.integer_unit.test_integer_unit import words
from fpga_cosim.tb.verilated import Module, pipelined

LATENCY = 4
INTEGERS = [each for each in DATATYPES if each.family == Family.INTEGER]


def products(a: np.ndarray, b: np.ndarray, datatype: DataType) -> np.ndarray:
    """The expected words of 64 bits."""
    rows = np.stack([a, b]).view(datatype.numpy)
    return operation_by_name("PROD").partial(rows, datatype).view(np.uint64)


def size_log2(datatype: DataType) -> int:
    return datatype.itemsize.bit_length() - 1


@pytest.mark.parametrize("datatype", INTEGERS, ids=lambda datatype: datatype.name)
def test_products(vectors: int, generator: np.random.Generator, datatype: DataType) -> None:
    module = Module("integer_multiply")
    inputs = np.zeros(vectors, module.inputs)
    inputs["a"], inputs["b"] = words(generator, vectors), words(generator, vectors)
    inputs["size_log2"], inputs["advance"] = size_log2(datatype), 1
    expected = products(inputs["a"], inputs["b"], datatype)
    assert (pipelined(module, inputs, LATENCY)["product"] == expected).all()


def test_any_sizes_with_stops(generator: np.random.Generator) -> None:
    module = Module("integer_multiply")
    a, b = words(generator, 2000), words(generator, 2000)
    types = generator.integers(0, len(INTEGERS), len(a))
    expected = np.choose(types, [products(a, b, datatype) for datatype in INTEGERS])
    steps = generator.integers(0, 2, 3 * len(a))
    inputs = np.zeros(len(steps), module.inputs)
    place = np.minimum(np.cumsum(steps) - steps, len(a) - 1)
    inputs["advance"], inputs["a"], inputs["b"] = steps, a[place], b[place]
    inputs["size_log2"] = np.array([size_log2(datatype) for datatype in INTEGERS])[types[place]]
    ready = np.flatnonzero((place >= LATENCY) & (place < len(a) - 1))
    assert len(ready) > len(a)
    assert (module.run(inputs)["product"][ready] == expected[place[ready] - LATENCY]).all()

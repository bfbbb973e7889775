"""The divider of integers equals the oracle of MEAN: each integer of 8 bits, edges and random ones of the others."""

import numpy as np
import pytest

from fanin_wire import arithmetic
from fanin_wire.datatypes import DATATYPES, DataType, Family
from fpga_cosim.tb.divisors import divisors, reciprocal_of
from fpga_cosim.tb.verilated import Module, pipelined

LATENCY, INTEGERS = 8, [each for each in DATATYPES if each.family == Family.INTEGER]


def words(generator: np.random.Generator, count: int, divisor: int, datatype: DataType) -> np.ndarray:
    """64 bits each: random ones, multiples of the divisor and their neighbours; each of 8 bits, each edge."""
    kind, bits = datatype.numpy, np.iinfo(datatype.numpy)
    random = generator.integers(0, 1 << 64, count, np.uint64).view(kind)
    most = int(bits.max) // divisor
    near = generator.integers(0, most, len(random), np.uint64, endpoint=True) * np.uint64(divisor)
    near = near.astype(kind) + generator.integers(-1, 2, len(random)).astype(kind)
    sign = generator.choice((-1, 1), len(random)).astype(kind)
    edges = (
        np.arange(bits.min, bits.max + 1) if kind.itemsize == 1 else [bits.min, bits.min + 1, bits.max - 1, bits.max]
    )
    with np.errstate(over="ignore"):
        numbers = np.concatenate([np.array(edges, kind), random, near * sign])
    return np.resize(numbers, -(-len(numbers) * kind.itemsize // 8) * 8 // kind.itemsize).view(np.uint64)


@pytest.mark.parametrize("datatype", INTEGERS, ids=lambda datatype: datatype.name)
def test_quotients(vectors: int, generator: np.random.Generator, datatype: DataType) -> None:
    module = Module("integer_divide")
    given, expected = [], []
    for divisor in divisors(generator, 100):
        a = words(generator, vectors // 4000, divisor, datatype)
        inputs = np.zeros(len(a), module.inputs)
        inputs["valid"], inputs["a"], inputs["size_log2"] = 1, a, datatype.itemsize.bit_length() - 1
        inputs["is_signed"] = datatype.numpy.kind == "i"
        inputs["reciprocal"], inputs["shift"] = reciprocal_of(divisor)
        given.append(inputs)
        expected.append(arithmetic.divide(a.view(datatype.numpy), divisor).view(np.uint64))
    order = generator.permutation(sum(map(len, given)))
    quotients = pipelined(module, np.concatenate(given)[order], LATENCY)["quotient"]
    assert (quotients == np.concatenate(expected)[order]).all()

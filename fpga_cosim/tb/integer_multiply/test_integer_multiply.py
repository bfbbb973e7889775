"""Products of integers of each size equal the oracle."""

from __future__ import annotations

import numpy as np
import pytest

from fanin_wire.datatypes import DATATYPES, DataType, Family
from fanin_wire.operations import operation_by_name
from fpga_cosim.tb.integer_unit.test_integer_unit import words
from fpga_cosim.tb.verilated import Module

INTEGERS = [each for each in DATATYPES if each.family == Family.INTEGER]


@pytest.mark.parametrize("datatype", INTEGERS, ids=lambda datatype: datatype.name)
def test_products(vectors: int, generator: np.random.Generator, datatype: DataType) -> None:
    module = Module("integer_multiply")
    inputs = np.zeros(vectors, module.inputs)
    inputs["a"], inputs["b"] = words(generator, vectors), words(generator, vectors)
    inputs["size_log2"] = datatype.itemsize.bit_length() - 1
    rows = np.stack([inputs["a"], inputs["b"]]).view(datatype.numpy)
    expected = operation_by_name("PROD").partial(rows, datatype).view(np.uint64)
    assert (module.run(inputs)["product"] == expected).all()

"""Minimum and maximum of f32, f16 and bf16 equal the oracles of MIN and MAX, bit for bit."""

import numpy as np
import pytest

from fanin_wire.datatypes import datatype_by_name
from fanin_wire.operations import operation_by_name
from fpga_cosim.tb.floats import operands
from fpga_cosim.tb.verilated import Module, pipelined

LATENCY = 2


@pytest.mark.parametrize(("name", "exponent", "fraction"), [("f32", 8, 23), ("f16", 5, 10), ("bf16", 8, 7)])
def test_extremes(vectors: int, generator: np.random.Generator, name: str, exponent: int, fraction: int) -> None:
    module = Module("float_extreme", {"EXPONENT": exponent, "FRACTION": fraction})
    datatype = datatype_by_name(name)
    a, b = operands(generator, vectors, exponent, fraction)
    for is_maximum, operation in enumerate(("MIN", "MAX")):
        inputs = np.zeros(len(a), module.inputs)
        inputs["is_maximum"], inputs["a"], inputs["b"], inputs["advance"] = is_maximum, a, b, 1
        rows = np.stack([a, b]).view(datatype.numpy)
        expected = operation_by_name(operation).oracle(rows, datatype).view(a.dtype)
        assert (pipelined(module, inputs, LATENCY)["extreme"] == expected).all()

"""Pairs with few values and few indices, so that equal ones meet, and any bits, equal the oracle."""

import numpy as np
import pytest

from fanin_wire.datatypes import datatype_by_name
from fanin_wire.operations import operation_by_name
from fpga_cosim.tb.floats import special_values
from fpga_cosim.tb.verilated import Module, pipelined

SIZE, LATENCY = 8, 2  # bytes, clocks
EDGES = {
    "i16_i32": np.array([-32768, -1, 0, 1, 32767], "<i2"),
    "i32_i32": np.array([-(2**31), -1, 0, 1, 2**31 - 1], "<i4"),
    "f32_i32": special_values(8, 23).view("<f4"),
}


@pytest.mark.parametrize("operation", ["MINLOC", "MAXLOC"])
@pytest.mark.parametrize("name", EDGES)
def test_pairs(vectors: int, generator: np.random.Generator, name: str, operation: str) -> None:
    module, datatype = Module("pair_extreme"), datatype_by_name(name)
    raw = generator.integers(0, 256, (2, SIZE * vectors), np.uint8)
    pairs = raw.view(datatype.numpy)
    few = generator.random(pairs.shape) < 0.7
    zeros = generator.random(pairs.shape) < 0.2
    pairs["value"][few] = generator.choice(EDGES[name], int(few.sum()))
    pairs["value"][zeros] = generator.choice(np.array([0, -0.0]).astype(EDGES[name].dtype), int(zeros.sum()))
    pairs["index"][few] = generator.choice(np.array([-(2**31), -1, 0, 1, 2**31 - 1]), int(few.sum()))
    same = generator.random(vectors) < 0.3
    pairs["index"][1, same] = pairs["index"][0, same]
    inputs = np.zeros(vectors, module.inputs)
    inputs["a"], inputs["b"] = raw.view("<u8")
    inputs["is_maximum"], inputs["is_float"] = operation == "MAXLOC", name == "f32_i32"
    inputs["is_short"], inputs["advance"] = name == "i16_i32", 1
    expected = operation_by_name(operation).partial(pairs, datatype).view("<u8")
    extreme = pipelined(module, inputs, LATENCY)["extreme"]
    wrong = np.flatnonzero(extreme != expected)
    assert not len(wrong), [f"{inputs['a'][i]:016x} {inputs['b'][i]:016x}: {extreme[i]:016x}" for i in wrong[:10]]

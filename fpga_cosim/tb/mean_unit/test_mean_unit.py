"""Beats of all types and many divisors, mixed and with gaps, equal the oracle of MEAN bit for bit."""

import numpy as np

from fanin_conform.profile import read
from fanin_wire import arithmetic
from fanin_wire.datatypes import DATATYPES, DataType, Family
from fanin_wire.operations import operation_by_name
from fpga_cosim.tb.divisors import as_f32, divisors, reciprocal_of
from fpga_cosim.tb.floats import BYTES, halves, operands
from fpga_cosim.tb.tools import ROOT
from fpga_cosim.tb.verilated import Module

PROFILE = read((ROOT / "fpga_cosim/profile.toml").read_text())
MEAN, LATENCY, PAUSED = operation_by_name("MEAN"), 8, 0.25


def beat(
    module: Module, generator: np.random.Generator, datatype: DataType, divisor: int
) -> tuple[np.ndarray, np.ndarray]:
    inputs = np.zeros(1, module.inputs)
    inputs["valid"], inputs["dtype"] = 1, datatype.code
    is_integer = datatype.family == Family.INTEGER
    inputs["reciprocal"], inputs["shift"] = reciprocal_of(divisor if is_integer else as_f32(divisor))
    if is_integer:
        inputs["total"] = generator.integers(0, 256, BYTES, np.uint8)
        total = inputs["total"].reshape(-1).view(datatype.numpy)
    else:
        small = datatype.family == Family.SMALL_FLOAT
        total = generator.choice(np.concatenate(operands(generator, 100)), BYTES // datatype.itemsize).view(np.float32)
        scale = generator.choice([1.0, 2.0**-90 if small else 1.0], len(total)).astype(np.float32)
        with np.errstate(all="ignore"):
            total = arithmetic.canonical(total * scale)
        if small:
            inputs["total"], inputs["total_high"] = halves(total, 1)
        else:
            inputs["total"] = total.view(np.uint8)
    mean = MEAN.finish(total, divisor, datatype)
    return inputs, mean.view(np.uint8)


def test_beats(vectors: int, generator: np.random.Generator) -> None:
    module = Module("mean_unit")
    types = [each for each in DATATYPES if MEAN.takes(each) and PROFILE.has(MEAN, each)]
    assert len(types) == 11
    choice = divisors(generator, 300)
    beats = [
        beat(module, generator, types[int(generator.integers(len(types)))], int(generator.choice(choice)))
        for _ in range(max(2000, vectors // 50))
    ]
    place, inputs, at = 0, [], []
    while place < len(beats):
        pauses = generator.random() < PAUSED
        inputs.append(np.zeros(1, module.inputs) if pauses else beats[place][0])
        at += [] if pauses else [len(inputs) - 1]
        place += not pauses
    inputs.append(np.zeros(LATENCY + 1, module.inputs))
    outputs = module.run(np.concatenate(inputs))
    assert np.flatnonzero(outputs["means_valid"]).tolist() == [each + LATENCY for each in at]
    for (given, mean), clock in zip(beats, at, strict=True):
        found = outputs["means"][clock + LATENCY]
        assert (found == mean).all(), (given["dtype"], given["shift"], found, mean)

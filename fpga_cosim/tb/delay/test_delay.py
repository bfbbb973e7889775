"""Inputs come out so many clocks with `advance` later."""

import numpy as np

from fpga_cosim.tb.verilated import Module

CLOCKS, STOPPED = 3, 0.3


def test_with_stops(generator: np.random.Generator) -> None:
    module = Module("delay", {"WIDTH": 16, "CLOCKS": CLOCKS})
    inputs = np.zeros(2000, module.inputs)
    inputs["advance"] = generator.random(len(inputs)) >= STOPPED
    inputs["data"] = generator.integers(0, 1 << 16, len(inputs))
    seen = module.run(inputs)["delayed"]
    taken = inputs["data"][inputs["advance"] == 1]
    before = np.cumsum(inputs["advance"]) - inputs["advance"]  # how many were taken before each clock
    there = before >= CLOCKS
    assert (seen[there] == taken[before[there] - CLOCKS]).all()

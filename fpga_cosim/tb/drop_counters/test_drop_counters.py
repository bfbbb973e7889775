"""Each reason has its own counter, which a reset clears."""

import numpy as np

from fpga_cosim.tb.steps import DROP
from fpga_cosim.tb.verilated import Module


def test_counters(generator: np.random.Generator) -> None:
    module = Module("drop_counters")
    for _ in range(2):
        module.reset()
        inputs = np.zeros(3000, module.inputs)
        inputs["drop"] = generator.integers(0, len(DROP), len(inputs)) * (generator.random(len(inputs)) < 0.8)
        inputs["drop"][-2:] = DROP["NONE"]  # the last one is counted two clocks later
        came = module.run(inputs)["drops"][-1].view("<u4")
        expected = np.bincount(inputs["drop"], minlength=len(DROP))
        assert came[1:].tolist() == expected[1:].tolist()
        assert came[DROP["NONE"]] == 0

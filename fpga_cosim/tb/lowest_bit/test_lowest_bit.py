"""The lowest bit of bitmaps with one or two, and of random ones, and what is left."""

import numpy as np

from fpga_cosim.tb.verilated import Module


def test_bitmaps(generator: np.random.Generator) -> None:
    module = Module("lowest_bit")
    inputs = np.zeros(4000, module.inputs)
    inputs["bitmap"] = generator.integers(0, 1 << 64, len(inputs), np.uint64)
    inputs["bitmap"] &= np.uint64((1 << 64) - 1) << generator.integers(0, 64, len(inputs), np.uint64)
    few = [0, *(1 << high | 1 << low for high in range(64) for low in range(high + 1))]
    inputs["bitmap"][: len(few)] = few
    for bitmap, output in zip(inputs["bitmap"].tolist(), module.run(inputs), strict=True):
        lowest = bitmap & -bitmap
        assert (output["lowest"], output["rest"]) == (max(lowest.bit_length() - 1, 0), bitmap & ~lowest)

"""The number of bits of bitmaps: none, all, each alone, and random ones."""

import numpy as np

from fpga_cosim.tb.verilated import Module


def test_bitmaps(generator: np.random.Generator) -> None:
    module = Module("bit_count")
    inputs = np.zeros(2000, module.inputs)
    inputs["bitmap"] = generator.integers(0, 1 << 64, len(inputs), np.uint64)
    few = [0, (1 << 64) - 1, *(1 << bit for bit in range(64))]
    inputs["bitmap"][: len(few)] = few
    assert module.run(inputs)["count"].tolist() == [bitmap.bit_count() for bitmap in inputs["bitmap"].tolist()]

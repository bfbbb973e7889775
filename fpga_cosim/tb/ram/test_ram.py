"""A read gives the last earlier write, one clock later."""

import numpy as np

from fpga_cosim.tb.verilated import Module


def test_reads_and_writes(generator: np.random.Generator) -> None:
    module = Module("ram", {"WIDTH": 64, "ADDRESS": 4})
    inputs = np.zeros(4000, module.inputs)
    for name in ("write_enable", "read_enable"):
        inputs[name] = generator.integers(0, 2, len(inputs))
    for name in ("write_address", "read_address"):
        inputs[name] = generator.integers(0, 16, len(inputs))
    inputs["write_data"] = generator.integers(0, 1 << 64, len(inputs), np.uint64)
    inputs["write_enable"][:16], inputs["write_address"][:16], inputs["read_enable"][:16] = 1, range(16), 0
    came = module.run(inputs)["read_data"]
    memory, read = [0] * 16, None
    for clock, each in enumerate(inputs):
        if read is not None:
            assert came[clock] == read
        if each["read_enable"]:
            read = memory[each["read_address"]]
        if each["write_enable"]:
            memory[each["write_address"]] = int(each["write_data"])

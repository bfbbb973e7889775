"""Each operation on integers of each size equals its oracle."""

import numpy as np

from fanin_wire.datatypes import DATATYPES, Family
from fanin_wire.operations import OPERATIONS
from fpga_cosim.tb.verilated import Module, pipelined

LATENCY = 3
NOT_COMPUTED = {"PROD"}  # integer_multiply does


def words(generator: np.random.Generator, count: int) -> np.ndarray:
    """64 bits each: random ones, and ones whose bytes are at the edges, so that elements are equal, 0 or extreme."""
    edges = generator.choice(np.array([0, 0, 1, 0x7F, 0x80, 0xFF], np.uint8), 8 * count).view(np.uint64)
    return np.where(generator.integers(0, 2, count), generator.integers(0, 1 << 64, count, np.uint64), edges)


def test_operations(vectors: int, generator: np.random.Generator) -> None:
    module = Module("integer_unit")
    count, tried = vectors // 20, 0
    for datatype in DATATYPES:
        if datatype.family not in (Family.INTEGER, Family.BOOL):
            continue
        for operation in OPERATIONS:
            if not operation.takes(datatype) or operation.name in NOT_COMPUTED:
                continue
            a, b = words(generator, count), words(generator, count)
            b[: count // 4] = a[: count // 4]
            inputs = np.zeros(count, module.inputs)
            inputs["advance"] = 1
            inputs["op"], inputs["size_log2"] = operation.code, datatype.itemsize.bit_length() - 1
            inputs["is_signed"], inputs["a"], inputs["b"] = datatype.numpy.kind == "i", a, b
            rows = np.stack([a, b]).view(np.uint8 if datatype.family == Family.BOOL else datatype.numpy)
            # MEAN travels as SUM: the partial is not divided
            expected = operation.partial(rows.view(datatype.numpy), datatype).view(np.uint64)
            assert (pipelined(module, inputs, LATENCY)["result"] == expected).all(), (operation.name, datatype.name)
            tried += 1
    assert tried == 8 * 10 + 3

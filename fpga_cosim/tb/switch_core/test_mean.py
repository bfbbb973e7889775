"""A mean whose last child brings no data: the slot's sum is divided."""

import numpy as np

from fanin_reference import spec
from fanin_wire.abi import DType, Op
from fpga_cosim.tb.one_job import DATA_AND_WANTS, contribution, joined
from fpga_cosim.tb.verilated import Module

NOW_US, RANKS = 1_000_000, 3


def test_the_last_child_brings_none(module: Module) -> None:
    target, job, addresses = joined(module, 2)
    without = DATA_AND_WANTS & ~spec.FLAGS["HAS_DATA"]
    for position, (dtype, kind) in enumerate((("I32", "<i4"), ("F16", "<f2"), ("F32", "<f4"))):
        data = np.arange(-100, 156).astype(kind)
        code = {"op": int(Op.MEAN), "dtype": int(DType[dtype])}
        first = contribution(job, addresses[0], 0, position, data, contributions=RANKS, **code)
        last = contribution(job, addresses[1], 1, position, data[:0], flags=without, **code)
        came = target.exchange_frames(NOW_US, [first, last])
        mean = np.trunc(data / RANKS).astype(kind) if dtype == "I32" else (data.astype("<f4") / np.float32(RANKS))
        expected = mean.astype(kind).tobytes()
        headers = spec.BTH.size + spec.CETH.size
        assert [each.data[headers : headers + len(expected)] for each in came] == 2 * [expected], dtype

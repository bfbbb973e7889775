"""The vector unit computes what the profile of the switch says, with true properties of types."""

import numpy as np

from fanin_conform.profile import read
from fanin_wire.datatypes import DATATYPES, Family
from fanin_wire.operations import OPERATIONS
from fpga_cosim.tb.tools import ROOT
from fpga_cosim.tb.verilated import Module

PROFILE = read((ROOT / "fpga_cosim/profile.toml").read_text())


def test_every_code() -> None:
    module = Module("computed_operation")
    inputs = np.zeros(1 << 16, module.inputs)
    inputs["op"], inputs["dtype"] = np.divmod(np.arange(len(inputs)), 256)
    outputs = module.run(inputs).reshape(256, 256)
    expected = np.zeros((256, 256), bool)
    for datatype in DATATYPES:
        for operation in OPERATIONS:
            expected[operation.code, datatype.code] = operation.takes(datatype) and PROFILE.has(operation, datatype)
        if datatype.name in PROFILE.types:
            known = outputs[:, datatype.code]
            value = datatype.numpy["value"] if datatype.family == Family.PAIR else datatype.numpy
            assert (known["is_pair"] == (datatype.family == Family.PAIR)).all()
            assert (known["is_float"] == (value.kind == "f" or datatype.family == Family.SMALL_FLOAT)).all()
            assert (known["is_small"] == (datatype.family == Family.SMALL_FLOAT)).all()
            assert (known["is_bf16"] == (datatype.name == "bf16")).all()
            assert (known["is_signed"] == (value.kind == "i")).all()
            assert (1 << known["size_log2"].astype(int) == value.itemsize).all()
    assert expected.sum() == 112
    assert (outputs["is_computed"] == expected).all()

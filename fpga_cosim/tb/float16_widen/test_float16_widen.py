"""Every f16 and every bf16 becomes the f32 that the oracle has."""

from __future__ import annotations

import numpy as np
import pytest

from fanin_wire import arithmetic
from fanin_wire.datatypes import datatype_by_name
from fpga_cosim.tb.verilated import Module


@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_every_number(name: str) -> None:
    module, datatype = Module("float16_widen"), datatype_by_name(name)
    numbers = np.arange(1 << 16, dtype=np.uint16)
    inputs = np.zeros(len(numbers), module.inputs)
    inputs["is_bf16"], inputs["narrow"] = name == "bf16", numbers
    expected = arithmetic.widen(numbers.view(datatype.numpy), datatype).view(np.uint32)
    assert (module.run(inputs)["wide"] == expected).all()

"""Every f16 and every bf16 becomes the oracle's f32."""

import numpy as np
import pytest

from fanin_wire import arithmetic
from fanin_wire.datatypes import datatype_by_name
from fpga_cosim.tb.float_units import widened


@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_every_number(name: str) -> None:
    datatype, numbers = datatype_by_name(name), np.arange(1 << 16, dtype=np.uint16)
    expected = arithmetic.widen(numbers.view(datatype.numpy), datatype).view(np.uint32)
    assert (widened(numbers, name) == expected).all()

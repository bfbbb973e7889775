"""The constants of the switch in Verilog: their widths and names."""

import re

from fanin_wire import fields
from fanin_wire.verilog_tables import constants


def test_values_fit_into_their_widths() -> None:
    sized = re.findall(r"`define (\w+) (\d+)'d(\d+)$", constants(), re.M)
    assert len(sized) > 50
    for name, bits, value in sized:
        assert int(value) < 1 << int(bits), name


def test_names_are_given_once() -> None:
    names = re.findall(r"`define (\w+)", constants())
    assert len(names) == len(set(names))
    position = fields.CETH.field("position")
    assert f"`define FANIN_CETH_POSITION_OFFSET {position.offset}\n" in constants()

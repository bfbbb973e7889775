"""The table of synthesis names existing modules, and growth over 10 % is found. `make synthesis` fills it."""

import pytest

from fpga_cosim.syn import synthesis
from fpga_cosim.tb.tools import RTL

DESIGNS = synthesis.table()


def test_the_table_is_that_of_the_program() -> None:
    assert synthesis.render(DESIGNS) == synthesis.TABLE.read_text()
    assert len({synthesis.name_of(each) for each in DESIGNS}) == len(DESIGNS)
    for design in DESIGNS:
        assert (RTL / f"{design['module']}.v").exists()
        assert set(design) <= {*synthesis.GIVEN, *synthesis.FIGURES}
        assert {"lut", "register", "block_ram", "levels"} <= set(design)


@pytest.mark.parametrize(("name", "good", "bad"), [("lut", 110, 111), ("levels", 90, 120), ("mhz", 91, 90)])
def test_growth_over_ten_per_cent_is_named(name: str, good: float, bad: float) -> None:
    assert synthesis.worse({name: 100}, {name: good}) == []
    assert synthesis.worse({name: 100}, {name: bad}) == [f"{name} {bad}, and it was 100"]


def test_cells_are_counted_by_kind() -> None:
    cells = {"LUT6": 3, "LUT2": 1, "CARRY4": 2, "FDRE": 5, "RAMB36E2": 1, "RAMB18E2": 2, "RAM32M": 4, "MUXF7": 9}
    found = synthesis.count({"design": {"num_cells_by_type": cells}}, "xcup")
    assert found == {"lut": 4, "carry": 2, "register": 5, "block_ram": 3, "lut_ram": 4, "dsp": 0}

"""The switch as corundum's application block, without corundum. `make corundum` simulates it there."""

from pathlib import Path

import pytest

from fpga_cosim.tb.tools import ROOT, RTL, run

NAME = "mqnic_app_block"
BLOCK = ROOT / f"fpga_cosim/corundum/{NAME}.v"
ICARUS = ("iverilog", "-g2005", "-y", RTL, "-I", RTL, "-s", NAME)


def test_no_warning() -> None:
    """Except about unused parts; Verilator ends with an error if it warns."""
    assert run(*ICARUS, "-Wall", "-t", "null", BLOCK) == ""
    run("verilator", "--lint-only", "-Wall", "-Wno-UNUSED", f"-I{RTL}", BLOCK)


@pytest.mark.parametrize(
    "parameter", ["APP_ID=305397761", "AXIS_DATA_WIDTH=256", "APP_AXIS_DIRECT_ENABLE=0", "AXIL_APP_CTRL_DATA_WIDTH=64"]
)
def test_a_wrong_parameter_is_refused(parameter: str, tmp_path: Path) -> None:
    """At the start of the simulation, by name."""
    run(*ICARUS, f"-P{NAME}.{parameter}", "-o", tmp_path / "simulation", BLOCK)
    name = parameter.partition("=")[0]
    assert f"fanin: NOT_SUPPORTED: {name} is" in run("vvp", "-n", tmp_path / "simulation")


def test_two_ports() -> None:
    """Each output has a driver if there are more ports than the switch's."""
    run("verilator", "--lint-only", "-Wall", "-Wno-UNUSED", "-GIF_COUNT=2", f"-I{RTL}", BLOCK)

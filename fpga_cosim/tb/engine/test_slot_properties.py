"""The whole switch keeps the rules of slots that `make formal` proves, and its assumptions about other modules."""

from fpga_cosim.formal.formal import FAULTS, RTL
from fpga_cosim.tb.switch_core.test_switch_core import compare
from fpga_cosim.tb.target import TABLES
from fpga_cosim.tb.verilated import Module

PACKETS = 20_000
PLACES = {"engine_inst.f_was_broken": "u2", "engine_inst.f_was_breached": "u1"}


def test_rules_and_assumptions(seed: int) -> None:
    """In the traffic of the differential test, for a slot of the job that is formed first."""
    module = Module("switch_core", tables=TABLES | PLACES, properties=True)
    compare(module, seed, PACKETS)
    for place in PLACES:
        assert f"{module.table(place)[0]:b}" == "0", place


def test_a_fault_has_its_place() -> None:
    """`make formal` tries them."""
    for fault in FAULTS:
        assert (RTL / f"{fault.module}.v").read_text().count(fault.right) == 1, fault.name
        assert fault.right != fault.wrong

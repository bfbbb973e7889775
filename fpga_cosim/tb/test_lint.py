"""Each module is clean for Icarus (Verilator's -Wall is on where tests build it), and has a test of its own."""

import pytest

from fpga_cosim.tb.mutants import MUTANTS, Mutant
from fpga_cosim.tb.tools import ROOT, RTL, run, sources


@pytest.mark.parametrize("path", sources(), ids=lambda path: path.stem)
def test_icarus_has_no_warning(path) -> None:
    assert run("iverilog", "-g2005", "-Wall", "-t", "null", "-y", RTL, "-I", RTL, "-s", path.stem, path) == ""


@pytest.mark.parametrize(
    "parameters",
    [{"JOBS": 1, "LEASE": 2}, {"JOBS": 2, "LEASE": 9}, {"JOBS": 6, "CHUNK": 6}, {"REPRODUCIBLE": 0}],
    ids=str,
)
def test_verilator_has_no_warning_for_other_sizes(parameters: dict[str, int]) -> None:
    given = [f"-G{name}={value}" for name, value in parameters.items()]
    run("verilator", "--lint-only", "-Wall", f"-I{RTL}", *given, RTL / "switch_core.v")


@pytest.mark.parametrize("path", sources(), ids=lambda path: path.stem)
def test_a_module_is_a_file_with_a_test(path) -> None:
    assert path.read_text().count("\nendmodule") == 1
    assert f"\nmodule {path.stem} " in path.read_text()
    assert (ROOT / f"fpga_cosim/tb/{path.stem}/test_{path.stem}.py").exists()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_has_its_place(mutant: Mutant) -> None:
    """`make cosim-mutants` tries them."""
    assert (RTL / f"{mutant.module}.v").read_text().count(mutant.right) == 1
    assert mutant.right != mutant.wrong

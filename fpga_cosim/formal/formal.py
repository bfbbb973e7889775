"""Properties of the engine's slots, searched for a counterexample in all runs of so many clocks: `make formal`.

    python -m fpga_cosim.formal.formal [--clocks N] [--faults [PART_OF_A_NAME ...]]

The properties are those of `slot_properties.vh`. The engine has two jobs of four slots here, and the states of
membership and of time are cut out of its copy: the solver proves that these are never reached by the packets it may
choose. --faults breaks the engine in one place at a time (`faults.toml`), and each time a property must fail.
"""

from __future__ import annotations

import argparse
import sys
import time
import tomllib
from collections.abc import Sequence
from pathlib import Path

from fpga_cosim.syn.synthesis import relative, tool
from fpga_cosim.tb.tools import OWN_BUILD, ROOT, ToolFailed, ToolMissing, run

FOLDER = Path(__file__).parent
RTL = ROOT / "fpga_cosim/rtl"
BUILD = OWN_BUILD.parent / "formal"
MODULES = ("engine", "slot_rule", "ram", "lowest_bit", "computed_operation")
CUT = "\n        // Section 10.4\n", "\n        default: state <= IDLE;\n"  # first and last line of the states to cut
CLOCKS = 16  # a contribution of the only child, its result, and the next position in the same slot take 14
HOLDS, FAILS = "proved base case for", "model found for base case"


def check(label: str, clocks: int, module: str = "", right: str = "", wrong: str = "") -> bool:
    """Whether all properties hold in all runs of so many clocks; in `module` the text `right` is replaced.

    Raises:
        ToolMissing, ToolFailed: see there.
    """
    folder = BUILD / label
    folder.mkdir(parents=True, exist_ok=True)
    for name in MODULES:
        text = (RTL / f"{name}.v").read_text()
        if name == module:
            assert text.count(right) == 1, f"{label}: not once in {name}.v: {right}"
            text = text.replace(right, wrong)
        if name == "engine":
            before, found, rest = text.partition(CUT[0])
            _, also_found, after = rest.partition(CUT[1])
            assert found, "the states to cut are not there"
            assert also_found, "the states to cut have no end"
            text = before + CUT[1] + after
        (folder / f"{name}.v").write_text(text)
    sources = " ".join(relative(folder / f"{name}.v") for name in MODULES)
    script = [
        f"read_verilog -formal -DFORMAL -Ifpga_cosim/rtl -Ifpga_cosim/formal {sources}",
        "chparam -set JOBS 1 -set LEASE 2 engine",
        "hierarchy -check -top engine",
        "proc; flatten; opt_clean",
        "delete -output engine/w:*; opt -purge",  # only what the properties need is left
        "memory -nordff -nomap",
        # What is read of children, and what the cut states would drive, may be anything.
        *(f"delete engine/c:{each}.memory" for each in ("children", "heard", "sent")),
        "setundef -undriven -anyseq; memory_map; opt -purge; dffunmap",
        f"tee -q -o {relative(folder / 'log')} sat -prove-asserts -set-assumes -tempinduct-baseonly -tempinduct "
        f"-maxsteps {clocks} -seq 1 -dump_vcd {relative(folder / 'run.vcd')} engine",
    ]
    run(tool("yosys"), "-q", "-p", "; ".join(script), cwd=ROOT)
    log = (folder / "log").read_text()
    if HOLDS in log or FAILS in log:
        return HOLDS in log
    raise ToolFailed(f"yosys came to no end; see {relative(folder / 'log')}")


def main(words: Sequence[str] | None = None) -> int:
    """Run. Returns the exit code: 1 if a property fails, a fault is not found, or a tool is missing or fails."""
    parser = argparse.ArgumentParser(prog="python -m fpga_cosim.formal.formal", description=__doc__)
    parser.add_argument("--clocks", type=int, default=CLOCKS, help="length of the runs (default: %(default)s)")
    parser.add_argument("--faults", action="store_true", help="break the engine, one place at a time")
    parser.add_argument("parts", nargs="*", help="parts of the names of faults; default: all")
    asked = parser.parse_args(words)
    try:
        return faults(asked.clocks, asked.parts) if asked.faults else properties(asked.clocks)
    except (ToolMissing, ToolFailed) as error:
        print(f"fanin: NOT_SUPPORTED: {error}")
        return 1


def properties(clocks: int) -> int:
    """All of them, of the engine as it is."""
    begun = time.monotonic()
    if not check("sound", clocks):
        print(
            f"fanin: FAILED: a property of {relative(FOLDER)} fails; the run is in {relative(BUILD / 'sound/run.vcd')}"
        )
        return 1
    print(f"all properties hold in all runs of {clocks} clocks; {time.monotonic() - begun:.0f} s")
    return 0


def faults(clocks: int, parts: Sequence[str]) -> int:
    """Each broken engine fails a property."""
    missed = []
    for fault in tomllib.loads((FOLDER / "faults.toml").read_text())["fault"]:
        if not all(part in fault["name"] for part in parts):
            continue
        label = fault["name"].replace(" ", "_")
        holds = check(label, clocks, fault["module"], fault["right"], fault["wrong"])
        print(f"{fault['name']}: {'NOT FOUND' if holds else 'found'}", flush=True)
        missed += [fault["name"]] * holds
    if missed:
        print(f"fanin: FAILED: no property fails with: {', '.join(missed)}")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())

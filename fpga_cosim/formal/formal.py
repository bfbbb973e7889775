"""Properties of the engine's slots, searched for a counterexample in all runs of so many clocks: `make formal`.

    python -m fpga_cosim.formal.formal [--clocks N] [--faults]

The properties are those of `slot_properties.vh`. The engine has two jobs of four slots here, and the states of
membership and of time are cut out of its copy: the solver proves that these are never reached by the packets it may
choose. --faults breaks the engine in one place at a time (`faults.toml`), and each time a property must fail.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
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
CLOCKS = 22  # two contributions, the result to both, and the next position in the same slot
PASSED, FAILED, REACHED = "Status: PASSED", "Status: FAILED", "Reached cover statement"
SOLVERS = ("boolector", "z3")


def solver() -> str:
    """The first solver that is installed. Raises ToolMissing."""
    for name in SOLVERS:
        if shutil.which(name) or Path(sys.executable).with_name(name).exists():
            return name
    raise ToolMissing("no SMT solver is installed: make formal, which installs z3; or boolector of your system")


def model(label: str, module: str = "", right: str = "", wrong: str = "") -> Path:
    """The engine with its properties for the solver; in `module` the text `right` is replaced. Raises ToolFailed."""
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
    out = folder / "engine.smt2"
    sources = " ".join(relative(folder / f"{name}.v") for name in MODULES)
    script = [
        f"read_verilog -formal -DFORMAL -Ifpga_cosim/rtl -Ifpga_cosim/formal {sources}",
        "chparam -set JOBS 1 -set LEASE 2 engine",
        "hierarchy -check -top engine",
        "proc; flatten",
        "delete -output engine/w:*",  # only what the properties need is left
        "opt -purge; memory -nomap; opt -purge; async2sync; dffunmap",
        f"write_smt2 -wires {relative(out)}",
    ]
    run(tool("yosys"), "-q", "-p", "; ".join(script), cwd=ROOT)
    return out


def search(path: Path, clocks: int, covers: bool = False) -> tuple[str, str]:
    """What the solver says in the end, and all that it printed."""
    options = ["-c"] if covers else []
    command = [tool("yosys-smtbmc"), "-s", solver(), *options, "-t", str(clocks), "--presat", relative(path)]
    if not covers:
        command += ["--dump-vcd", relative(path.with_suffix(".vcd"))]
    path_with_solver = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path_with_solver}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    printed = done.stdout + done.stderr
    for verdict in (PASSED, FAILED):
        if verdict in printed:
            return verdict, printed
    raise ToolFailed(f"{' '.join(command)} ended with {done.returncode}:\n{printed}")


def failure(printed: str) -> str:
    """The property that failed, as a line of its file."""
    lines = [line for line in printed.splitlines() if "Assert failed" in line]
    return lines[0].partition("Assert failed in ")[2] if lines else ""


def main(words: Sequence[str] | None = None) -> int:
    """Run. Returns the exit code: 1 if a property fails, a fault is not found, or a tool is missing or fails."""
    parser = argparse.ArgumentParser(prog="python -m fpga_cosim.formal.formal", description=__doc__)
    parser.add_argument("--clocks", type=int, default=CLOCKS, help="length of the runs (default: %(default)s)")
    parser.add_argument("--faults", action="store_true", help="break the engine, one place at a time")
    asked = parser.parse_args(words)
    try:
        return faults(asked.clocks) if asked.faults else properties(asked.clocks)
    except (ToolMissing, ToolFailed) as error:
        print(f"fanin: NOT_SUPPORTED: {error}")
        return 1


def properties(clocks: int) -> int:
    """All of them, of the engine as it is."""
    begun = time.monotonic()
    path = model("sound")
    verdict, printed = search(path, clocks)
    if verdict == FAILED:
        print(f"fanin: FAILED: {failure(printed)}; the run is in {relative(path.with_suffix('.vcd'))}")
        return 1
    verdict, printed = search(path, clocks, covers=True)
    if verdict == FAILED:
        print(f"fanin: FAILED: no run of {clocks} clocks uses a slot twice: the properties say nothing; more --clocks")
        return 1
    print(f"all properties hold in all runs of {clocks} clocks, {time.monotonic() - begun:.0f} s with {solver()}")
    return 0


def faults(clocks: int) -> int:
    """Each broken engine fails a property."""
    missed = []
    for fault in tomllib.loads((FOLDER / "faults.toml").read_text())["fault"]:
        path = model(fault["name"].replace(" ", "_"), fault["module"], fault["right"], fault["wrong"])
        verdict, printed = search(path, clocks)
        print(f"{fault['name']}: {failure(printed) if verdict == FAILED else 'NOT FOUND'}", flush=True)
        if verdict != FAILED:
            missed.append(fault["name"])
    if missed:
        print(f"fanin: FAILED: no property fails with: {', '.join(missed)}")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())

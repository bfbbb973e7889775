"""Rules of the engine's slots, proven for all packets in all orders: `make formal`.

    python -m fpga_cosim.formal.formal [proof | covers | faults [NAME ...]]

The rules are in `slot_properties.vh`. yosys makes a formula of the engine, and yosys-smtbmc has Bitwuzla solve it:

- proof, the default: by induction. If all holds in two consecutive clocks, it holds in the next one.
- covers: the solver finds runs that put each rule to the test.
- faults: the engine is broken in one place at a time (`faults.toml`). The rule named there must fail, in a run that
  begins between two packets. Properties within a packet's turn are not checked then.
"""

import os
import re
import subprocess
import sys
import time
import tomllib
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from fanin_wire.command_line import Parser
from fpga_cosim.syn.synthesis import relative, tool
from fpga_cosim.tb.tools import OWN_BUILD, ROOT, ToolFailed, ToolMissing, run

FOLDER = Path(__file__).parent
RTL = ROOT / "fpga_cosim/rtl"
BUILD = OWN_BUILD.parent / "formal"
# The engine and its modules
MODULES = (
    *("engine", "dispatch", "segment", "membership", "job_end", "scan", "command_writer"),
    *("job_table", "child_table", "slot_table", "config_reader", "contribution_rule", "slot_rule", "group_rule"),
    *("computed_operation", "drop_counters", "bit_count", "lowest_bit", "ram"),
)
# Unneeded conditions
FREE = (
    *("key_is_right", "dispatch_inst.is_strange", "dispatch_inst.is_unknown", "segment_inst.differs"),
    *("segment_inst.rule.is_computed", "dispatch_inst.nak_is_recent", "had_loss", "segment_inst.was_just_sent"),
)
MEMORIES = (
    *("child_table_inst.children", "child_table_inst.heard", "child_table_inst.sent"),
    *("slot_table_inst.records", "slot_table_inst.in_turn.turn"),
)
INDUCTION = 2  # clocks
COVERS = 13  # the last contribution of two children, its results, and a packet after it take 12
FAULT = 12


class Fault(NamedTuple):
    """name: the error. module: the file, in which `right` becomes `wrong`. rule: the one that must fail."""

    name: str
    module: str
    right: str
    wrong: str
    rule: str


FAULTS = tuple(
    Fault(name, module, *fault)
    for module, faults in tomllib.loads((FOLDER / "faults.toml").read_text()).items()
    for name, fault in faults.items()
)


def formula(label: str, fault: Fault | None = None) -> Path:
    """The engine and its properties, maybe with a fault, as a formula. Raises ToolMissing, ToolFailed."""
    folder = BUILD / label
    folder.mkdir(parents=True, exist_ok=True)
    for name in MODULES:
        text = (RTL / f"{name}.v").read_text()
        if fault and name == fault.module:
            text = text.replace(fault.right, fault.wrong)
        (folder / f"{name}.v").write_text(text)
    made = folder / "engine.smt2"
    sources = " ".join(relative(folder / f"{name}.v") for name in MODULES)
    defines = "-DPROPERTIES -DFAULT" if fault else "-DPROPERTIES"
    script = [
        f"read_verilog -formal {defines} -Ifpga_cosim/rtl -Ifpga_cosim/formal {sources}",
        "chparam -set JOBS 1 -set LEASE 2 engine",
        "hierarchy -check -top engine",
        "proc; flatten; opt_clean",
        # One job alone, without silence. Other conditions are free in every clock.
        "cd engine; connect -set job 1'0; connect -set at_job 1'0; connect -set scan_is_due 1'0",
        f"cutpoint {' '.join(f'w:{each}' for each in FREE)}; cd",
        "delete -output engine/w:*; opt -purge",  # removes all that the properties do not need
        "memory -nordff -nomap",
        # The records of children are free; slot_properties.vh has the memory of slots.
        *(f"delete engine/c:{each}.memory" for each in MEMORIES),
        "setundef -undriven -anyseq; memory_map; opt -purge; async2sync; dffunmap; opt_clean",
        f"write_smt2 -wires {relative(made)}",
    ]
    run(tool("yosys"), "-q", "-p", "; ".join(script), cwd=ROOT)
    return made


def search(made: Path, *options: str) -> tuple[bool, str]:
    """Whether yosys-smtbmc reports PASSED, and its output. Raises ToolMissing, ToolFailed."""
    if find_spec("bitwuzla") is None:
        raise ToolMissing("bitwuzla is not installed: make formal, which installs it; or pip install -e '.[synthesis]'")
    trace = relative(made.with_suffix(".vcd"))
    command = [tool("yosys-smtbmc"), "-s", "bitwuzla", "--noprogress", "--dump-vcd", trace, *options, relative(made)]
    path = os.pathsep.join([str(FOLDER), str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, "PATH": path}, capture_output=True, text=True)
    if "Status: PASSED" not in done.stdout and "Status: FAILED" not in done.stdout:
        raise ToolFailed(f"yosys-smtbmc has no result:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return "Status: PASSED" in done.stdout, done.stdout


def failed_rules(printed: str) -> list[str]:
    """The rules that yosys-smtbmc names as failed."""
    return re.findall(r"Assert failed in engine: (\w+)", printed)


def prove() -> bool:
    begun = time.monotonic()
    made = formula("sound")
    for options in (("-t", str(INDUCTION)), ("-i", "-t", str(INDUCTION))):
        holds, printed = search(made, *options)
        if not holds:
            trace = relative(made.with_suffix(".vcd"))
            print(f"fanin: FAILED: {', '.join(failed_rules(printed))}, see {relative(FOLDER)}; the run is in {trace}")
            return False
    print(f"all rules are proven; {time.monotonic() - begun:.0f} s")
    return True


def check_covers() -> bool:
    begun = time.monotonic()
    reached, printed = search(formula("sound"), "-c", "-t", str(COVERS))
    lines = re.findall(r"((?:Reached|Unreached) cover statement.*slot_properties\.vh:\d+)\.", printed)
    print("\n".join(lines))
    print(f"covers {'all reached' if reached else 'NOT ALL REACHED'}; {time.monotonic() - begun:.0f} s")
    return reached


def chosen(names: Sequence[str]) -> list[Fault]:
    """The faults of these names; without names all. Raises ValueError for an unknown name."""
    if unknown := set(names) - {fault.name for fault in FAULTS}:
        raise ValueError(f"{min(unknown)!r} is not a fault: see {relative(FOLDER / 'faults.toml')}")
    return [fault for fault in FAULTS if not names or fault.name in names]


def check_faults(faults: Sequence[Fault]) -> bool:
    """Whether each broken engine fails its rule."""
    missed = []
    for fault in faults:
        begun = time.monotonic()
        _, printed = search(formula(fault.name.replace(" ", "_"), fault), "-t", str(FAULT))
        failed = failed_rules(printed)
        if fault.rule not in failed:
            missed.append(fault.name)
        print(f"{fault.name}: {', '.join(failed) or 'NOT FOUND'}; {time.monotonic() - begun:.0f} s", flush=True)
    if missed:
        print(f"fanin: FAILED: the rule that must fail holds with: {', '.join(missed)}")
    return not missed


def main() -> int:
    """Exit code 1: a rule fails, a fault is not found, or a tool is missing or fails."""
    parser = Parser(prog="python -m fpga_cosim.formal.formal", description=__doc__)
    parser.add_argument("what", nargs="?", choices=("proof", "covers", "faults"), default="proof")
    parser.add_argument("names", nargs="*", help="of faults; default: all")
    asked = parser.parse_args()
    try:
        faults = chosen(asked.names)
        if asked.names and asked.what != "faults":
            raise ValueError(f"names are those of faults: faults {' '.join(map(repr, asked.names))}")
    except ValueError as error:
        parser.error(str(error))
    try:
        if asked.what == "faults":
            return int(not check_faults(faults))
        return int(not (prove() if asked.what == "proof" else check_covers()))
    except ToolMissing as error:
        print(f"fanin: NOT_SUPPORTED: {error}")
    except ToolFailed as error:
        print(f"fanin: FAILED: {error}")
    return 1


if __name__ == "__main__":
    sys.exit(main())

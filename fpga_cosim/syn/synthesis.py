"""What modules of the RTL need on an FPGA, compared with the table `designs.toml`: `make synthesis`.

    python -m fpga_cosim.syn.synthesis [--write] [PART_OF_A_NAME ...]

A design is a module with parameters on a family of FPGAs. yosys maps it to the cells of the family, flattened; where
its row says `whole`, it flattens only that module and maps each other one alone. nextpnr places and routes a row with
`mhz`. A figure that is more than 10 % worse than the table's is an error. --write puts the new figures into the table.
"""

import json
import re
import shutil
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fanin_wire.command_line import Parser
from fpga_cosim.tb.tools import OWN_BUILD, ROOT, ToolFailed, ToolMissing, run

TABLE = Path(__file__).with_name("designs.toml")
BUILD = OWN_BUILD.parent / "synthesis"
GROWTH = 1.1
REMEDY = "make synthesis, which installs them; or pip install -e '.[synthesis]'"
# What is counted: names of cells
CELLS = {
    "xcup": {
        "lut": r"LUT[1-6]|INV",
        "carry": r"CARRY[48]",
        "register": r"FD[RSCP]E",
        "block_ram": r"RAMB\d+E2",
        "lut_ram": r"RAM\d+[XM]\w*",
        "dsp": r"DSP48E2",
    },
    "ecp5": {
        "lut": r"LUT4",
        "carry": r"CCU2C",
        "register": r"TRELLIS_FF",
        "block_ram": r"DP16KD",
        "lut_ram": r"TRELLIS_DPR16X4",
        "dsp": r"MULT18X18D",
    },
}
SYNTHESIS = {
    "xcup": "synth_xilinx -family xcup -flatten -noiopad -noclkbuf -top {module}",
    "ecp5": "synth_ecp5 -top {module} -json {netlist}",
}
# The ends of paths
ENDS = {"xcup": "t:FD* t:RAM* t:SRL* t:DSP*", "ecp5": "t:TRELLIS_FF t:DP16KD t:TRELLIS_DPR16X4"}
ROUTE = ("--85k", "--package", "CABGA756", "--speed", "6", "--seed", "1", "--timing-allow-fail")
GIVEN = ("module", "family", "parameters", "whole")
FIGURES = (*CELLS["xcup"], "levels", "mhz")


def tool(name: str) -> str:
    """A program of the system, or YoWASP's from PyPI. Raises ToolMissing."""
    beside = Path(sys.executable).with_name(f"yowasp-{name}")
    for found in (str(beside) if beside.exists() else None, shutil.which(f"yowasp-{name}"), shutil.which(name)):
        if found:
            return found
    raise ToolMissing(f"{name} is not installed: {REMEDY}")


def relative(path: Path) -> str:
    """A path from the root of the checkout, as YoWASP's programs need it."""
    return str(path.relative_to(ROOT))


def synthesise(design: Mapping[str, Any]) -> dict[str, float]:
    family, module = design["family"], design["module"]
    BUILD.mkdir(parents=True, exist_ok=True)
    counts, netlist = BUILD / f"{module}.{family}.json", BUILD / f"{module}.{family}.netlist.json"
    path = BUILD / f"{module}.{family}.path.txt"
    sources = " ".join(relative(each) for each in sorted((ROOT / "fpga_cosim/rtl").glob("*.v")))
    parameters = " ".join(f"-chparam {name} {value}" for name, value in design.get("parameters", {}).items())
    mapping = [SYNTHESIS[family].format(module=module, netlist=relative(netlist))]
    if "whole" in design:
        mapping = ["proc", f"flatten *{design['whole']}", mapping[0].replace(" -flatten", "")]
    script = [
        f"read_verilog -defer -Ifpga_cosim/rtl {sources}",
        f"hierarchy -check -top {module} {parameters}",
        *mapping,
        "flatten",
        f"tee -q -o {relative(counts)} stat -json",
        f"delete {ENDS[family]}",
        f"tee -q -o {relative(path)} ltp -noff",
    ]
    run(tool("yosys"), "-q", "-p", "; ".join(script), cwd=ROOT)
    (levels,) = re.findall(r"Longest topological path in .*\(length=(\d+)\)", path.read_text())
    found: dict[str, float] = count(json.loads(counts.read_text()), family) | {"levels": int(levels)}
    if "mhz" in design:
        found["mhz"] = route(netlist)
    return found


def count(statistics: Mapping[str, Any], family: str) -> dict[str, float]:
    cells = statistics["design"]["num_cells_by_type"]
    return {
        kind: sum(number for name, number in cells.items() if re.fullmatch(pattern, name))
        for kind, pattern in CELLS[family].items()
    }


def route(netlist: Path) -> float:
    """The clock in MHz of a routed netlist on an ECP5 of 85k."""
    report = netlist.with_suffix(".route.json")
    files = ("--json", relative(netlist), "--report", relative(report))
    run(tool("nextpnr-ecp5"), *ROUTE, *files, cwd=ROOT)
    return round(min(clock["achieved"] for clock in json.loads(report.read_text())["fmax"].values()), 1)


def worse(design: Mapping[str, Any], found: Mapping[str, float]) -> list[str]:
    """The figures that are more than 10 % worse than the table's."""
    return [
        f"{name} {found[name]:g}, and it was {design[name]:g}"
        for name in FIGURES
        if name in design
        and (found[name] * GROWTH < design[name] if name == "mhz" else found[name] > design[name] * GROWTH)
    ]


def name_of(design: Mapping[str, Any]) -> str:
    """As in `vector_unit WIDTH=64 ecp5`."""
    parameters = [f"{name}={value}" for name, value in design.get("parameters", {}).items()]
    return " ".join([design["module"], *parameters, design["family"]])


def table() -> list[dict[str, Any]]:
    return [design | design.pop("figures") for design in tomllib.loads(TABLE.read_text())["design"]]


def render(designs: list[dict[str, Any]]) -> str:
    head = TABLE.read_text().partition("\n[[design]]")[0]
    rows = []
    for design in designs:
        parameters = ", ".join(f"{name} = {value}" for name, value in design.get("parameters", {}).items())
        lines = [f'module = "{design["module"]}"', f'family = "{design["family"]}"']
        lines += [f"parameters = {{ {parameters} }}"] if parameters else []
        lines += [f'whole = "{design["whole"]}"'] if "whole" in design else []
        figures = ", ".join(f"{key} = {design[key]}" for key in FIGURES if key in design)
        rows.append("\n".join(["[[design]]", *lines, f"figures = {{ {figures} }}"]))
    return "\n".join([head, "\n\n".join(rows), ""])


def main() -> int:
    """Exit code 1: a figure has become worse, or a tool is missing or fails."""
    parser = Parser(prog="python -m fpga_cosim.syn.synthesis", description=__doc__)
    parser.add_argument("parts", nargs="*", help="parts of the names of designs; default: all")
    parser.add_argument("--write", action="store_true", help="put the new figures into the table")
    asked = parser.parse_args()
    designs = table()
    chosen = [each for each in designs if all(part in name_of(each) for part in asked.parts)]
    if not chosen:
        print(f"fanin: INVALID_REQUEST: no design is called {' '.join(asked.parts)}; see {relative(TABLE)}")
        return 1
    failed = False
    for design in chosen:
        try:
            found = synthesise(design)
        except (ToolMissing, ToolFailed) as error:
            print(f"fanin: NOT_SUPPORTED: {error}")
            return 1
        print(name_of(design), *(f"{name}={value:g}" for name, value in found.items()), flush=True)
        if asked.write:
            design.update(found)
            TABLE.write_text(render(designs))
        elif complaints := worse(design, found):
            failed = True
            print(f"fanin: GROWN: {name_of(design)}: {'; '.join(complaints)}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())

"""The switch as corundum's application, in corundum's own testbench of its core.

    python -m fpga_cosim.corundum.testbench FOLDER [CASE ...]

FOLDER is a clone of corundum. The case `template` is corundum's test with its own application, which passes everything:
it shows whether the tools work. `nic` is the same test with the switch. `children` is children.py. Default: both with
the switch. Icarus Verilog simulates, with corundum's parameters for a port of 100 Gbit/s.
"""

import importlib.util
import logging
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest import mock
from xml.etree import ElementTree

from cocotb_test import simulator

from fpga_cosim.tb.tools import OWN_BUILD, ROOT, RTL, sources

HERE = Path(__file__).parent
BLOCK = "mqnic_app_block.v"
APPLICATION = 0xFA010001
TEST, BENCH = "test_mqnic_core_pcie_us", "fpga/app/template/tb/mqnic_core_pcie_us"
LINES = 60  # of the log of a case that failed
ONE_PORT_OF_512_BITS = (1, 1, 512, 512, 512, 1)  # interfaces, ports, widths of PCIe and of Ethernet twice, time stamps


class Case(NamedTuple):
    """module: of the cocotb tests. has_switch: instead of corundum's template."""

    module: str
    has_switch: bool


CASES = {"template": Case(TEST, False), "nic": Case(TEST, True), "children": Case("fpga_cosim.corundum.children", True)}


def described(folder: Path) -> dict[str, Any]:
    """Corundum's arguments for the simulator: sources, parameters, environment."""
    place = folder / BENCH
    sys.path.insert(0, str(place))
    found = importlib.util.spec_from_file_location(TEST, place / f"{TEST}.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    with mock.patch.object(simulator, "run") as run:
        module.test_mqnic_core_pcie_us(SimpleNamespace(node=SimpleNamespace(name="")), *ONE_PORT_OF_512_BITS)
    return dict(run.call_args.kwargs)


def with_switch(given: Mapping[str, Any]) -> dict[str, Any]:
    others = [path for path in given["verilog_sources"] if Path(path).name != BLOCK]
    assert len(others) + 1 == len(given["verilog_sources"]), f"corundum's list of sources has no {BLOCK}"
    parameters = dict(given["parameters"]) | {"APP_ID": APPLICATION}
    return dict(given) | {
        "verilog_sources": [*others, str(HERE / BLOCK), *map(str, sources())],
        "includes": [str(RTL)],
        "parameters": parameters,
        "extra_env": {f"PARAM_{name}": str(value) for name, value in parameters.items()},
    }


def run(folder: Path, name: str) -> bool:
    """Simulate a case, with its output in a file. Returns whether all its tests passed."""
    case, given = CASES[name], described(folder)
    if case.has_switch:
        given = with_switch(given)
    build = OWN_BUILD / "corundum" / ("switch" if case.has_switch else "template")
    given |= {"module": case.module, "sim_build": str(build), "python_search": [str(folder / BENCH), str(ROOT)]}
    given["extra_env"] |= {"COCOTB_LOG_LEVEL": "WARNING"}
    log = build.with_name(f"{name}.log")
    log.parent.mkdir(parents=True, exist_ok=True)
    logging.basicConfig(filename=log, filemode="w", level=logging.INFO, force=True)
    print(f"== {name}: simulating (minutes; {log.relative_to(ROOT)})", flush=True)
    begun = time.monotonic()
    try:
        tests = list(ElementTree.parse(simulator.run(**given)).iter("testcase"))
    except (SystemExit, ElementTree.ParseError) as error:  # the latter: it ended before its tests
        print("\n".join([*log.read_text().splitlines()[-LINES:], f"== {name}: FAILED: {error}"]))
        return False
    assert tests
    simulated = sum(float(test.attrib["sim_time_ns"]) for test in tests) / 1000
    print(f"== {name}: passed, {simulated:.0f} us in {time.monotonic() - begun:.0f} s")
    return True


def main(arguments: Sequence[str]) -> int:
    """The exit code: 1 if a case failed."""
    folder, *names = arguments
    results = [run(Path(folder).resolve(), name) for name in names or ("children", "nic")]
    return int(not all(results))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Waveforms: the signals of a module over time, and `fanin conform --target rtl --wave FILE`."""

import itertools
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fpga_cosim.tb.verilated import Module

VARIABLE = re.compile(r"\$var \w+\s+(\d+) (\S+) (\w+)")
SCOPE = re.compile(r"\$scope \w+ (\w+)")
BUS = {"clk": 1, "rst": 1, "s_axis_tdata": 512, "s_axis_tkeep": 64, "m_axis_tdata": 512, "m_axis_tvalid": 1}
CLOCK_PS = 4000


def conform(*words: str) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("fanin")), "conform", *words]
    return subprocess.run(command, capture_output=True, text=True)


def signals(header: str) -> dict[str, dict[str, tuple[int, str]]]:
    """Of each scope, the width and the identifier of each signal."""
    found: dict[str, dict[str, tuple[int, str]]] = {}
    scopes: list[str] = []
    for line in header.splitlines():
        if match := SCOPE.search(line):
            scopes.append(match[1])
        elif "$upscope" in line:
            scopes.pop()
        elif match := VARIABLE.search(line):
            found.setdefault(".".join(scopes), {})[match[3]] = int(match[1]), match[2]
    return found


def check(path: Path, module: str, ports: dict[str, int]) -> set[str]:
    """The waveform of a module has these ports and a clock. Returns the names of the instances in it."""
    header, _, changes = path.read_text().partition("$enddefinitions $end")
    found = signals(header)
    (top,) = (scope for scope in found if scope.endswith(module))
    assert ports.items() <= {name: width for name, (width, _) in found[top].items()}.items()
    assert "$timescale 1ps $end" in header
    clock = found[top]["clk"][1]
    times = [int(time) for time in re.findall(rf"#(\d+)\n(?:(?!#).*\n)*?1{re.escape(clock)}\n", changes)]
    assert len(times) > 2
    assert all(after - before == CLOCK_PS for before, after in itertools.pairwise(times))
    return {scope.rpartition(".")[2] for scope in found}


def test_the_signals_of_a_module_have_their_names(tmp_path: Path) -> None:
    """With the inputs before the edge, and the effects of the edge after it."""
    path = tmp_path / "fifo.vcd"
    module = Module("fifo", wave=path)
    inputs = np.zeros(3, module.inputs)
    inputs["push"], inputs["data"] = (1, 0, 0), 0xA5
    module.run(inputs)
    module.close()
    assert "fifo" in check(path, "fifo", {"clk": 1, "rst": 1, "data": 8, "first": 8, "is_empty": 1})
    assert "b10100101" in path.read_text()


@pytest.mark.long
def test_the_signals_of_the_switch_have_their_names(tmp_path: Path) -> None:
    path = tmp_path / "switch.vcd"
    done = conform("--target", "rtl", "--wave", str(path), "segments")
    assert done.returncode == 0, done.stderr
    assert {"engine_inst", "slot_rule_inst", "children"} <= check(path, "switch_core", BUS)


def test_what_can_not_be_is_an_error(tmp_path: Path) -> None:
    done = conform("--target", "engine", "--wave", str(tmp_path / "switch.vcd"))
    assert (done.returncode, "'engine' has no waveform; leave --wave out" in done.stderr) == (2, True)
    done = conform("--target", "rtl", "--wave", str(tmp_path / "missing" / "switch.vcd"))
    assert done.returncode == 2
    assert "missing/switch.vcd can not be written: there is no folder " in done.stderr

"""The section for researchers: its commands run, in their order, and the changed rule does what the page says."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT, blocks_of
from tests.docs.test_blocks import environment
from tests.fabric.fixtures import own_state_folder

pytestmark = [pytest.mark.process, pytest.mark.deep]
PAGE = ROOT / "docs/simulator.md"
SECTION = "## Change a rule of the protocol"
BOUND_S = 1800  # changed code is compiled: for the simulator, the fuzzer and the suite
TIME = re.compile(r"virtual time of job 1 +\S +([\d.]+) (us|ms|s)")
UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1}


def times(printed: str) -> list[float]:
    return [float(number) * UNITS[unit] for number, unit in TIME.findall(printed)]


def test_the_commands_of_the_section(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / ".venv").symlink_to(Path(sys.prefix))
    (tmp_path / "device").symlink_to(ROOT / "device")
    first = PAGE.read_text().split(SECTION)[0].count("\n")
    changed, simulated, checked = (
        block.text for block in blocks_of(PAGE) if block.language == "sh" and block.line > first
    )
    with own_state_folder(monkeypatch) as state:
        printed = []
        for text in (changed, simulated, checked):
            line = ["bash", "-euo", "pipefail", "-c", text]
            ended = subprocess.run(
                line, cwd=tmp_path, env=environment(state), capture_output=True, text=True, timeout=BOUND_S
            )
            assert ended.returncode == 0, ended.stdout + ended.stderr
            printed.append(ended.stdout)
    differing = [line for line in printed[0].splitlines() if line.startswith(("<", ">", "diff"))]
    assert [line[0] for line in differing] == ["d", "<", ">"], "one line of one file differs"
    sound, trial = times(printed[1])[:3], times(printed[1])[3:]
    assert len(trial) == 3
    assert trial[0] < sound[0] / 10
    assert all(one <= other for one, other in zip(trial, sound, strict=True))
    assert "seed 12: " in printed[2]

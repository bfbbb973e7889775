"""`fanin dissector` prints the dissector, or puts it where Wireshark looks for it."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fanin_tools.cli import dissector
from fanin_tools.cli.app import app
from tests.dissector.tshark import FILE

pytestmark = pytest.mark.process


def fanin(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_DATA", "WIRESHARK"))}
    command = [sys.executable, "-c", "from fanin_tools.cli.app import main; main()", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=False, env=kept | {"HOME": str(home)}
    )


def test_prints_the_file(tmp_path: Path) -> None:
    assert fanin(tmp_path, "dissector").stdout == FILE.read_text()


def test_installs_it_where_tshark_finds_it(tmp_path: Path) -> None:
    done = fanin(tmp_path, "dissector", "--install", "--json")
    assert done.returncode == 0, done.stderr
    path = Path(json.loads(done.stdout)["path"])
    assert path.is_relative_to(tmp_path)
    assert path.read_text() == FILE.read_text()

    if shutil.which("tshark") is None:
        pytest.skip("the program `tshark` (wireshark)")
    listed = subprocess.run(
        ["tshark", "-G", "plugins"],
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | {"HOME": str(tmp_path)},
    )
    assert str(path) in listed.stdout


def test_folder_that_can_not_be_written(tmp_path: Path) -> None:
    (tmp_path / ".local").write_text("a file")
    done = fanin(tmp_path, "dissector", "--install")
    assert done.returncode == 1
    assert done.stderr.startswith("fanin: PERMISSION_DENIED: ")


def test_tshark_that_does_not_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "tshark"
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(dissector, "BOUND_S", 0.1)
    found = CliRunner().invoke(app, ["dissector", "--install"])
    assert found.exit_code == 1
    assert found.stderr.startswith("fanin: COMMAND_FAILED: ")

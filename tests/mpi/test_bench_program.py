"""`fanin bench program` with an MPI program: the shim is in every second run only, and gets the settings."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fanin_tools.cli.app import app
from tests.mpi.conftest import AS_ROOT, FAMILIES, QUIET_WAITING, Fabrics, Mpi


def bench(mpi: Mpi, fabrics: Fabrics, *command: str) -> dict[str, Any]:
    launcher = shlex.join([str(mpi.folder / "bin/mpiexec"), *FAMILIES[mpi.family]])
    line = ["bench", "program", "--fabric", fabrics.running.fabric.name, "-n", "2", "--turns", "1", "--json"]
    result = CliRunner().invoke(app, [*line, "--mpirun", launcher, "--", *command])
    assert result.exit_code == 0, result.stderr
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_settings_of_the_user_hold(mpi: Mpi, fabrics: Fabrics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (AS_ROOT | QUIET_WAITING | {"XDG_CONFIG_HOME": str(tmp_path)}).items():
        monkeypatch.setenv(name, value)
    program = str(mpi.build("mixed"))
    (left,) = bench(mpi, fabrics, program, "messages")["calls"]
    assert (left["collective"], left["offloaded"], list(left["left"])) == ("Allreduce", 0, ["THRESHOLD"])
    monkeypatch.setenv("FANIN_MPI_THRESHOLDS", "all=0-")
    monkeypatch.setenv("FANIN_MPI_JOIN", "early")
    found = bench(mpi, fabrics, program, "messages")
    assert found["calls"] == [{"collective": "Allreduce", "offloaded": 2, "left": {}}]
    assert found["warnings"] == []
    assert found["output"]["without_decimals"] == 0


def test_a_program_that_does_nothing_has_no_report(mpi: Mpi, fabrics: Fabrics, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in AS_ROOT.items():
        monkeypatch.setenv(name, value)
    assert bench(mpi, fabrics, "true")["calls"] is None

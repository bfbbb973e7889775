"""The launcher of an MPI: Open MPI's refuses root, and the user is told how to go on."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fanin_tools.launch import mpirun
from fanin_tools.launch.launcher import mpi_library_of

pytestmark = pytest.mark.process


@pytest.fixture
def launcher(tmp_path: Path) -> Path:
    path = tmp_path / "mpirun"
    path.write_text("#!/bin/sh\necho 'mpirun (Open MPI) 4.1.4'\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("user", "options", "version", "refuses"),
    [
        (0, "--oversubscribe", "", True),
        (0, "--allow-run-as-root", "", False),
        (0, "", "HYDRA build details", False),
        (1000, "", "", False),
    ],
)
def test_root_is_refused(
    launcher: Path, monkeypatch: pytest.MonkeyPatch, user: int, options: str, version: str, refuses: bool
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.delenv("OMPI_ALLOW_RUN_AS_ROOT", raising=False)
    if version:
        launcher.write_text(f"#!/bin/sh\necho '{version}'\n")
    assert mpirun.refuses_root(f"{launcher} {options}") is refuses


def test_root_that_has_allowed_itself(launcher: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("OMPI_ALLOW_RUN_AS_ROOT", "1")
    assert not mpirun.refuses_root(str(launcher))


def test_more_ranks_than_cores_are_allowed() -> None:
    """Open MPI 4 refuses them without its variable; the user's own setting counts."""
    launcher = shutil.which("mpirun.openmpi")
    if launcher is None:
        pytest.skip("Open MPI of Debian (Debian: openmpi-bin)")
    ranks = 2 * (os.cpu_count() or 1) + 1
    own = os.environ | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    line = mpirun.plain_command_line(ranks, launcher, ["true"])
    assert subprocess.run(line, env=own, capture_output=True).returncode != 0
    assert subprocess.run(line, env=mpirun.OVERSUBSCRIBE | own).returncode == 0
    forbidden = mpirun.OVERSUBSCRIBE | own | {"OMPI_MCA_rmaps_base_oversubscribe": "0"}
    assert subprocess.run(line, env=forbidden, capture_output=True).returncode != 0


def test_a_program_of_an_mpi_is_known_by_its_library(tmp_path: Path) -> None:
    """Without --mpi each rank is a world of its own: `fanin run` says so."""
    true = Path(shutil.which("true") or "")
    program = tmp_path / "program"
    shutil.copy(true, program)
    assert mpi_library_of(str(program)) is None
    with program.open("ab") as file:
        file.write(b"\0libmpich.so.12\0")
    assert mpi_library_of(str(program)) == "libmpich.so.12"
    assert mpi_library_of(sys.executable) is None
    assert mpi_library_of(str(tmp_path / "missing")) is None

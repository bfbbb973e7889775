"""A Fortran program under the shim: Open MPI's Fortran library calls past the entries of C."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.mpi.conftest import AS_ROOT, BOUND_S, ROOT, Fabrics
from tests.mpi.test_programs import offloaded


def tool(name: str) -> str:
    """Debian's Open MPI with Fortran; skips where it is not."""
    found = shutil.which(f"{name}.openmpi")
    if found is None or shutil.which("gfortran") is None:
        pytest.skip("a Fortran compiler and an MPI for it (Debian: gfortran libopenmpi-dev openmpi-bin)")
    return found


def test_the_example_in_fortran(fabrics: Fabrics, tmp_path: Path) -> None:
    program = tmp_path / "pi"
    environment = os.environ | (AS_ROOT if os.geteuid() == 0 else {})
    subprocess.run([tool("mpifort"), ROOT / "examples/mpi/pi.f90", "-o", program], check=True, cwd=tmp_path)
    variables = [f"{name}={value}" for name, value in fabrics.variables(3, "tree").items()]
    line = [tool("mpirun"), "--oversubscribe", "-n", "3", "env", *variables, program]
    ended = subprocess.run(line, capture_output=True, text=True, env=environment, timeout=BOUND_S)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "pi is 3.1415926536" in ended.stdout
    assert offloaded(ended.stderr) == {"Allreduce": (6, 0)}

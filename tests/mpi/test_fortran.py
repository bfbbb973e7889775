"""Fortran under the shim: Open MPI's library calls PMPI_ functions, MPICH's waits by them."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.mpi.conftest import AS_ROOT, BOUND_S, FAMILIES, PROGRAMS, ROOT, Fabrics
from tests.mpi.report import offloaded

NEEDED = "gfortran and an MPI for it (Debian: gfortran libopenmpi-dev openmpi-bin libmpich-dev mpich)"
RANKS = 3


def tool(name: str, family: str) -> str:
    """One of Debian's programs of a family; skips without it."""
    found = shutil.which(f"{name}.{family}")
    if found is None or shutil.which("gfortran") is None:
        pytest.skip(NEEDED)
    return found


def build(family: str, sources: list[Path], folder: Path) -> Path:
    """A program of Fortran, with its parts in C if there are any."""
    objects = []
    for source in sources:
        compiler = tool("mpicc" if source.suffix == ".c" else "mpifort", family)
        objects.append(folder / f"{source.name}.o")
        subprocess.run([compiler, "-c", source, "-o", objects[-1]], check=True, cwd=folder)
    subprocess.run([tool("mpifort", family), *objects, "-o", folder / "program"], check=True, cwd=folder)
    return folder / "program"


def run(family: str, fabrics: Fabrics, program: Path) -> subprocess.CompletedProcess[str]:
    variables = [f"{name}={value}" for name, value in fabrics.variables(RANKS, "tree").items()]
    line = [tool("mpiexec", family), *FAMILIES[family], "-n", str(RANKS), "env", *variables, program]
    environment = os.environ | (AS_ROOT if os.geteuid() == 0 else {})
    ended = subprocess.run(line, capture_output=True, text=True, env=environment, timeout=BOUND_S)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_the_example_in_fortran(family: str, fabrics: Fabrics, tmp_path: Path) -> None:
    ended = run(family, fabrics, build(family, [ROOT / "examples/mpi/pi.f90"], tmp_path))
    assert "pi is 3.1415926536" in ended.stdout
    assert offloaded(ended.stderr) == {"Allreduce": (6, 0)}


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_fortran_in_a_program_of_c(family: str, fabrics: Fabrics, tmp_path: Path) -> None:
    """Its first call of MPI in Fortran names MPI_IN_PLACE."""
    ended = run(family, fabrics, build(family, [PROGRAMS / "inner.c", PROGRAMS / "inner.f90"], tmp_path))
    assert ended.stdout.count("in place: right") == RANKS
    assert offloaded(ended.stderr) == {"Allreduce": (RANKS, 0)}


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_modern_fortran(family: str, fabrics: Fabrics, tmp_path: Path) -> None:
    ended = run(family, fabrics, build(family, [PROGRAMS / "modern.f90"], tmp_path))
    assert ended.stdout.count("modern: right") == RANKS
    assert offloaded(ended.stderr) == {"Allreduce": (4 * RANKS, 0), "Bcast": (RANKS, 0)}

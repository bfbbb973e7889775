"""Debian's MPICH 4.0 has senseless texts for errors that a library adds: the shim says what has failed."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.mpi.conftest import BOUND_S, Fabrics

PROGRAM = """
#include <mpi.h>
int main(int count, char **words)
{
    int rank, data[100] = {0}, sums[100];
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Allreduce(data, sums, rank ? 50 : 100, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
}
"""


def test_what_has_failed_is_said(fabrics: Fabrics, tmp_path: Path) -> None:
    compiler, launcher = shutil.which("mpicc.mpich"), shutil.which("mpiexec.mpich")
    if compiler is None or launcher is None:
        pytest.skip("MPICH of Debian (Debian: libmpich-dev mpich)")
    program = tmp_path / "program"
    subprocess.run([compiler, "-x", "c", "-", "-o", program], input=PROGRAM, text=True, check=True)
    variables = [f"{name}={value}" for name, value in fabrics.variables(2, "local").items()]
    line = [launcher, "-n", "2", "env", *variables, program]
    ended = subprocess.run(line, capture_output=True, text=True, env=os.environ, timeout=BOUND_S)
    assert ended.returncode != 0
    assert "MPI_Allreduce on Fanin: OP_MISMATCH: " in ended.stdout + ended.stderr

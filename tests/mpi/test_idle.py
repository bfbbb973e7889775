"""A program without an offloaded call prints a line about it. An example in C gains without any setting."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.mpi.conftest import AS_ROOT, BOUND_S, QUIET_WAITING, ROOT, Fabrics
from tests.mpi.report import offloaded

RANKS = 4
LAUNCHERS = {"openmpi": ["--oversubscribe"], "mpich": []}
PROGRAM = """
#include <mpi.h>
#include <stdlib.h>
int main(int count, char **words)
{
    double number = 1;
    MPI_Init(&count, &words);
    for (int calls = atoi(words[1]); calls; calls--)
        MPI_Allreduce(MPI_IN_PLACE, &number, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
}
"""
LEAVES_OUT = "FANIN_MPI_REPORT=0 leaves this line out"


class DebianMpi:
    """Debian's MPI, without any settings."""

    def __init__(self, family: str, folder: Path, fabrics: Fabrics) -> None:
        self._compiler, self._launcher = (shutil.which(f"{name}.{family}") for name in ("mpicc", "mpirun"))
        if not self._compiler or not self._launcher:
            pytest.skip(f"mpicc.{family} and mpirun.{family} (Debian: lib{family}-dev)")
        self._options, self._folder = LAUNCHERS[family], folder
        unset = dict.fromkeys(("FANIN_MPI_THRESHOLDS", "FANIN_MPI_JOIN", "FANIN_MPI_REPORT"), "")
        self._variables = fabrics.variables(RANKS, "local") | unset | {"XDG_CONFIG_HOME": str(folder)}

    def build(self, source: str) -> Path:
        program = self._folder / "program"
        line = [str(self._compiler), "-O2", "-x", "c", "-", "-o", program, "-lm"]
        subprocess.run(line, input=source, text=True, check=True)
        return program

    def run(self, program: Path, *words: str, **settings: str) -> subprocess.CompletedProcess[str]:
        given = [f"{name}={value}" for name, value in (QUIET_WAITING | self._variables | settings).items()]
        line = [str(self._launcher), *self._options, "-n", str(RANKS), "env", *given, program, *words]
        root = AS_ROOT if os.geteuid() == 0 else {}
        ended = subprocess.run(line, capture_output=True, text=True, env=os.environ | root, timeout=BOUND_S)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended

    def said(self, program: Path, *words: str, **settings: str) -> list[str]:
        """The shim's output."""
        lines = self.run(program, *words, **settings).stderr.splitlines()
        return [line.removeprefix("fanin: ") for line in lines if line.startswith("fanin: ")]


@pytest.fixture(params=sorted(LAUNCHERS))
def debian_mpi(request: pytest.FixtureRequest, fabrics: Fabrics, tmp_path: Path) -> DebianMpi:
    return DebianMpi(request.param, tmp_path, fabrics)


def test_a_program_that_offloads_nothing_is_told_why(debian_mpi: DebianMpi) -> None:
    program = debian_mpi.build(PROGRAM)
    (line,) = debian_mpi.said(program, "3")
    assert line.startswith("rank 0 has offloaded nothing: the MPI has done all of its 3 collective calls, 3 of them")
    assert " because of THRESHOLD: " in line
    assert line.endswith(LEAVES_OUT)
    (line,) = debian_mpi.said(program, "3", FANIN_MPI_THRESHOLDS="all=0-", FANIN_ORDER="arrival")
    assert " FEW_CALLS: " in line
    (line,) = debian_mpi.said(program, "0")
    assert line.startswith("rank 0 has offloaded nothing: it has made no call that devices do")
    (line,) = debian_mpi.said(program, "3", FANIN_SOCKET="/no/such/socket")
    assert line.startswith("NO_DEVICE: ")


@pytest.mark.parametrize("settings", [{}, {"FANIN_SOCKET": "/no/such/socket"}], ids=["threshold", "no device"])
def test_the_line_can_be_left_out(debian_mpi: DebianMpi, settings: dict[str, str]) -> None:
    assert debian_mpi.said(debian_mpi.build(PROGRAM), "3", FANIN_MPI_REPORT="0", **settings) == []


def test_there_is_no_such_line_where_it_is_known_or_wrong(debian_mpi: DebianMpi) -> None:
    program = debian_mpi.build(PROGRAM)
    assert "offloaded nothing" not in "".join(debian_mpi.said(program, "3", FANIN_MPI_REPORT="1"))
    assert debian_mpi.said(program, "3", FANIN_MPI_THRESHOLDS="all=0-", FANIN_MPI_JOIN="early") == []


def test_an_example_gains_without_any_setting(debian_mpi: DebianMpi) -> None:
    """Its long sums go to the devices, even on a host with a core for each rank. The result is the same."""
    program = debian_mpi.build((ROOT / "examples/mpi/pagerank.c").read_text())
    with_devices = debian_mpi.run(program, FANIN_MPI_REPORT="1")
    assert offloaded(with_devices.stderr) == {"Allreduce": (RANKS * 40, RANKS)}  # the first call asks whether it pays
    assert debian_mpi.run(program, LD_PRELOAD="").stdout == with_devices.stdout

"""Tools that count calls of MPI, such as profilers, see the program's calls, and devices carry these out."""

import subprocess
from pathlib import Path

import pytest

from fanin.mpi import library_path
from tests.mpi.conftest import PROGRAMS, Fabrics, Mpi
from tests.mpi.report import offloaded

ROUNDS, RANKS = 20, 3
COUNTED = f"tool: 1 initialized, {4 * ROUNDS} allreduces, {ROUNDS} waits"


@pytest.mark.parametrize("order", ["tool first", "tool last", "tool in the program", "tool in a library"])
def test_a_tool_counts_what_the_devices_do(mpi: Mpi, fabrics: Fabrics, tmp_path: Path, order: str) -> None:
    tool = tmp_path / "libtool.so"
    subprocess.run([mpi.folder / "bin/mpicc", "-shared", "-fPIC", PROGRAMS / "tool.c", "-o", tool], check=True)
    program = mpi.build("profiled")
    if order.startswith("tool in"):
        program = tmp_path / "program"
        sources = [PROGRAMS / "profiled.c", PROGRAMS / "tool.c" if order == "tool in the program" else tool]
        subprocess.run([mpi.folder / "bin/mpicc", *sources, "-o", program], check=True)
    preloaded = {"tool first": f"{tool}:{library_path()}", "tool last": f"{library_path()}:{tool}"}
    variables = fabrics.variables(RANKS, "tree") | {"LD_PRELOAD": preloaded.get(order, str(library_path()))}
    ended = mpi.succeed(RANKS, [program], variables)
    assert "profiled: 0 wrong" in ended.stdout
    assert COUNTED in ended.stdout
    assert offloaded(ended.stderr)["Allreduce"] == (4 * ROUNDS * RANKS, 0)

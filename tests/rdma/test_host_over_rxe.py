"""The host interface over the kernel's RoCE: ranks at one end of a link, their devices at the other.

`make rdma` runs it (conftest.py): it takes minutes.
"""

import json
import os
import re
import secrets
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.rank_processes import build_working_rank
from tests.mpi.conftest import PROGRAMS as MPI_PROGRAMS
from tests.mpi.report import offloaded

from .machine import programs
from .machine.guest import Guest

SECONDS = 5000  # a bound for one test; an idle machine needs a tenth
PLACES = {"nic1": ("10.9.1.1", "rxe2"), "nic2": ("10.9.1.2", "rxe2"), "leaf": ("10.9.1.3", "rxe2")}
KILLS = [
    *("rank tree", "device tree", "rank ring", "device ring", "rank local"),
    *("rank tree", "rank ring", "device local", "rank tree", "device ring"),
]
SIZES = [0, 1, 100, 3_001, 65_536, 250_001]
LONG = (16 << 20) // 4  # elements: 16 MiB
MPI_RANKS = 3
COMPARED = re.compile(r"[1-9]\d+ comparisons of each rank, 0 wrong")


@pytest.fixture(scope="module")
def mpi_command(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """A program of MPI that compares with the MPI's own results. Empty: no MPICH of Debian."""
    compiler, launcher = shutil.which("mpicc.mpich"), shutil.which("mpiexec.mpich")
    if compiler is None or launcher is None:
        return []
    program = tmp_path_factory.mktemp("mpi") / "forms"
    source = MPI_PROGRAMS / "forms.c"
    subprocess.run([compiler, "-O1", "-Wall", "-pthread", source, "-o", program, "-lm"], check=True)
    return [launcher, "-launcher", "fork", "-n", str(MPI_RANKS), str(program)]


Run = Callable[..., Any]


@pytest.fixture
def run(linked: Guest, environment: dict[str, str]) -> Run:
    """The output of `host_over_rxe` for a request."""

    def asked(what: str, **wanted: Any) -> Any:
        arguments = [json.dumps({"do": what, "places": PLACES, "ranks_at": "rxe1", **wanted})]
        return json.loads(programs.run_module(linked, environment, "tests.rdma.host_over_rxe", arguments, SECONDS))

    return asked


@pytest.mark.process
@pytest.mark.deep
@pytest.mark.parametrize(("route", "ranks"), [("local", [3]), ("tree", [2, 2]), ("ring", [2, 2])])
def test_collectives(run: Run, route: str, ranks: list[int]) -> None:
    """Every collective has its right result, in the same processes over both interfaces."""
    found = run("collectives", route=route, ranks=ranks, sizes=SIZES, long=LONG, interfaces=["rdma", "unix"])
    assert found["wrong"] == []
    print(f"{found['calls']} calls of {sum(ranks)} ranks")


@pytest.mark.process
@pytest.mark.deep
def test_kills(run: Run, tmp_path: Path) -> None:
    """All heard of it by name, and the verbs devices have all objects back: else the program would have failed."""
    seed = int(os.environ.get("FANIN_TEST_RDMA_SEED", secrets.randbits(32)))
    print(f"FANIN_TEST_RDMA_SEED={seed}")
    wanted = KILLS * 2
    assert run("kills", kills=wanted, seed=seed, working_rank=str(build_working_rank(tmp_path))) == wanted


@pytest.mark.process
@pytest.mark.deep
def test_mpi_program(run: Run, mpi_command: list[str]) -> None:
    """Unchanged, with FANIN_SOCKET=rdma://...; the device does all its collectives."""
    if not mpi_command:
        pytest.skip("MPICH of Debian (Debian: libmpich-dev mpich)")
    ended = run("mpi", command=mpi_command)
    assert ended["code"] == 0, ended
    assert COMPARED.search(ended["output"]), ended
    assert set(offloaded(ended["errors"]).values()) == {(3 * 3 * 8, 0)}, ended

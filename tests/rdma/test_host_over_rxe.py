"""The host interface over the kernel's RoCE: ranks at one end of a link, their devices at the other.

`make rdma` runs it (conftest.py): it takes minutes.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.rank_processes import build_working_rank
from tests.mpi.conftest import PROGRAMS as MPI_PROGRAMS
from tests.mpi.report import offloaded

from .machine import programs
from .machine.guest import Guest

SECONDS = 5000  # a bound; an idle machine needs a tenth
PLACES = {"nic1": ("10.9.1.1", "rxe2"), "nic2": ("10.9.1.2", "rxe2"), "leaf": ("10.9.1.3", "rxe2")}
KILLS = [
    *("rank tree", "device tree", "rank ring", "device ring", "rank local"),
    *("rank tree", "rank ring", "device local", "rank tree", "device ring"),
]
WANTED: dict[str, Any] = {
    "places": PLACES,
    "ranks_at": "rxe1",
    "routes": {"tree": [2, 2], "ring": [2, 2], "local": [3]},
    "sizes": [0, 1, 100, 3_001, 65_536, 250_001],
    "long": (16 << 20) // 4,  # elements: 16 MiB
    "long_routes": ["tree", "ring", "local"],
    "interfaces": ["rdma", "unix"],
    "kills": KILLS * 2,
    "seed": 1,
}
MPI_RANKS = 3
COMPARED = re.compile(r"[1-9]\d+ comparisons of each rank, 0 wrong")


@pytest.fixture(scope="module")
def mpi_command(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """A program of MPI that compares with what the MPI itself does. Empty: there is no MPICH of Debian."""
    compiler, launcher = shutil.which("mpicc.mpich"), shutil.which("mpiexec.mpich")
    if compiler is None or launcher is None:
        return []
    program = tmp_path_factory.mktemp("mpi") / "forms"
    source = MPI_PROGRAMS / "forms.c"
    subprocess.run([compiler, "-O1", "-Wall", "-pthread", source, "-o", program, "-lm"], check=True)
    return [launcher, "-launcher", "fork", "-n", str(MPI_RANKS), str(program)]


@pytest.fixture(scope="module")
def result(
    linked: Guest, environment: dict[str, str], mpi_command: list[str], tmp_path_factory: pytest.TempPathFactory
) -> Any:
    """What `host_over_rxe` says."""
    program: Path = build_working_rank(tmp_path_factory.mktemp("rank"))
    wanted = WANTED | {"working_rank": str(program), "mpi": mpi_command}
    return json.loads(
        programs.run_module(linked, environment, "tests.rdma.host_over_rxe", [json.dumps(wanted)], SECONDS)
    )


@pytest.mark.process
@pytest.mark.deep
def test_collectives(result: Any) -> None:
    """Every collective has its right result, over both interfaces."""
    assert result["wrong"] == []


@pytest.mark.process
@pytest.mark.deep
def test_kills(result: Any) -> None:
    """Everybody was told by name, and the verbs devices have all objects back: else the program would have failed."""
    assert [" ".join(kill) for kill in result["killed"]] == WANTED["kills"]


@pytest.mark.process
@pytest.mark.deep
def test_mpi_program(result: Any, mpi_command: list[str]) -> None:
    """It runs as it is, with FANIN_SOCKET=rdma://..., and the device does all its collectives."""
    if not mpi_command:
        pytest.skip("MPICH of Debian (Debian: libmpich-dev mpich)")
    ended = result["mpi"]
    assert ended["code"] == 0, ended
    assert COMPARED.search(ended["output"]), ended
    assert set(offloaded(ended["errors"]).values()) == {(3 * 3 * 8, 0)}, ended

"""`fanin bench` measures an MPI under the shim, and says whether its calls went to the devices."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fanin_tools.bench.setups import FIRST_WARM_UP, repetitions, warm_up
from fanin_tools.cli.app import app
from tests.mpi.conftest import PEERS, Mpi

NAMES = {"openmpi": "open-mpi", "mpich": "mpich"}


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """For the fabric's state: a short path, for UNIX sockets."""
    root = tmp_path_factory.mktemp("b")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(root))
    return root


def bench(mpi: Mpi) -> dict[str, Any]:
    """The comparison of an MPI alone and with ours below it."""
    name = NAMES[mpi.family]
    options = ["--contenders", f"{name},{name}-with-fanin", "--ranks", "2", "--sizes", "8,64K", "--rounds", "1"]
    result = CliRunner().invoke(app, ["bench", "local", *options, "--peers", str(PEERS), "--json"])
    assert result.exit_code == 0, result.stderr
    found: dict[str, Any] = json.loads(result.stdout)["comparisons"][0]
    return found


def test_every_call_is_offloaded(mpi: Mpi, folder: Path) -> None:
    found = bench(mpi)
    assert list(found["shortfalls"].values()) == [""]
    assert [row["ours"] for row in found["rows"]] == [False, True, False, True]
    assert [row["ratio"] is None for row in found["rows"]] == [False] * 4


@pytest.mark.parametrize("mpi", ["mpich"], indirect=True)
def test_calls_that_are_left_to_the_mpi_are_told(mpi: Mpi, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FANIN_MPI_THRESHOLDS", "allreduce=1k-")
    calls = 2 * (FIRST_WARM_UP + warm_up(8) + repetitions(8))  # of both ranks: on new arrays, and in the one turn
    said = f"{calls} of {2 * calls} calls not offloaded: THRESHOLD {calls}"
    assert bench(mpi)["shortfalls"] == {"MPICH with Fanin": said}

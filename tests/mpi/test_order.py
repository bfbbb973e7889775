"""A sum of floating-point numbers has the same bits from call to call."""

import pytest

from tests.mpi.conftest import Fabrics, Mpi
from tests.mpi.report import offloaded


@pytest.mark.parametrize(
    ("ranks", "route", "thresholds"),
    [(4, "local", ""), (4, "local", "all=0-"), (5, "tree", "all=0-"), (5, "ring", "all=0-")],
)
def test_the_same_bits_from_call_to_call(mpi: Mpi, fabrics: Fabrics, ranks: int, route: str, thresholds: str) -> None:
    """Whatever calls came before, and in whatever order the ranks come. One communicator begins with a call in which it
    can not join: its sums stay with the MPI."""
    settings = {"FANIN_MPI_JOIN": "auto", "FANIN_MPI_THRESHOLDS": thresholds}
    ended = mpi.run(ranks, [mpi.build("order")], fabrics.variables(ranks, route, **settings))
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("0 of "), ended.stdout
    assert offloaded(ended.stderr)["Allreduce"][0], ended.stderr
    assert " ORDER " in ended.stderr, ended.stderr

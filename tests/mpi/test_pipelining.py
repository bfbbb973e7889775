"""Long messages of blocking calls pass through a few bounce buffers part by part."""

import pytest

from tests.mpi.conftest import Fabrics, Mpi
from tests.mpi.report import offloaded

LONG = "1400000"  # bytes of the longest: some whole parts of every collective, and a shorter last one


@pytest.mark.parametrize(("route", "ranks", "staging"), [("local", 3, ""), ("tree", 4, "10000")])
def test_every_part_comes_to_its_place(mpi: Mpi, fabrics: Fabrics, route: str, ranks: int, staging: str) -> None:
    """With bounce buffers for all ranks but rank 0, or for none."""
    few = f"test ${{PMI_RANK:-$OMPI_COMM_WORLD_RANK}} = 0 && export FANIN_STAGING=5000; exec $0 {LONG}"
    variables = fabrics.variables(ranks, route, **({"FANIN_STAGING": staging} if staging else {}))
    ended = mpi.succeed(ranks, ["sh", "-c", few, mpi.build("compare")], variables)
    assert " 0 wrong" in ended.stdout
    counts = offloaded(ended.stderr)
    assert len(counts) == 11
    assert all(done for done, _ in counts.values()), ended.stderr
    assert not any(left for _, left in counts.values()), ended.stderr


@pytest.mark.parametrize("mpi", ["mpich"], indirect=True)
def test_registered_memory_goes_to_the_sizes_that_need_it(mpi: Mpi, fabrics: Fabrics) -> None:
    ended = mpi.succeed(2, [mpi.build("mixed"), "sizes"], fabrics.variables(2, "local"))
    assert "sizes: 0 wrong" in ended.stdout

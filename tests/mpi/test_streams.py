"""`fanin bench streams`: both contenders are timed, and every call is on Fanin, unless default settings decide."""

from pathlib import Path

from fanin_tools.bench import mpi_shim, streams
from tests.fabric.fixtures import ignore
from tests.mpi.conftest import Fabrics, Mpi

COLLECTIVES = [
    "Bcast",
    "Bcast, root moves on",
    "Reduce",
    "Allreduce",
    "Reduce_scatter_block",
    "Scatter",
    "Gather",
    "Allgather",
]


def test_streams(mpi: Mpi, fabrics: Fabrics, tmp_path: Path) -> None:
    (tmp_path / mpi.family).symlink_to(mpi.folder)
    rows = streams.measure(fabrics.running, tmp_path, [2], [8], ignore)
    assert [(row.collective, row.bytes) for row in rows] == [
        ("Barrier", 0),
        *((collective, 8) for collective in COLLECTIVES),
    ]
    assert all(row.alone > 0 and row.with_fanin > 0 and row.left == "" for row in rows)


def test_default_settings_are_those_of_any_program(fabrics: Fabrics) -> None:
    settings = {mpi_shim.THRESHOLDS, mpi_shim.JOIN}
    assert not settings & set(mpi_shim.environment(fabrics.running, 2, "local", forced=False))
    assert settings <= set(mpi_shim.environment(fabrics.running, 2, "local"))

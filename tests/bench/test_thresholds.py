"""Thresholds of the MPI shim follow from the measured times. Every collective is measured."""

from __future__ import annotations

import functools
from typing import Any, cast

import numpy as np
import pytest
from typer.testing import CliRunner

from fanin_tools.bench import mpi_shim, rank_program
from fanin_tools.bench.thresholds import COLLECTIVES, SIZES, Cell, value
from fanin_tools.cli.app import app


def cells(name: str, *ratios: float) -> list[Cell]:
    """Of one collective: at each size how many times as fast the devices are."""
    return [Cell(name, size, 100.0 * ratio, 100.0) for size, ratio in zip(SIZES, ratios, strict=False)]


@pytest.mark.parametrize(
    ("ratios", "found"),
    [
        ((1, 1, 1, 1), "all=0-"),
        ((0.5, 0.7, 0.7, 2), "all=0-, bcast=512-"),
        ((0.1, 0.1, 1, 1, 1, 0.1), "all=0-, bcast=4k-256k"),
        ((1, 1, 0.1, 1), "all=0-, bcast=0-512"),
        ((0.1, 0.1), "all=0-, bcast=off"),
    ],
)
def test_far_slower_collectives_stay_with_the_mpi(ratios: tuple[float, ...], found: str) -> None:
    others = [cell for name in COLLECTIVES if name != "Bcast" for cell in cells(name, 1, 1)]
    assert value([*others, *cells("Bcast", *ratios)], slower=1.5) == found


@pytest.mark.parametrize("name", ["Gatherv", "Scatterv"])
@pytest.mark.parametrize(
    ("ratios", "range_"), [((1, 1, 1), ""), ((0.1, 1, 1), "off"), ((1, 1, 0.1), "off"), ((0.1,), "off")]
)
def test_without_known_sizes_it_is_all_or_nothing(name: str, ratios: tuple[float, ...], range_: str) -> None:
    others = [cell for other in COLLECTIVES if other != name for cell in cells(other, 1, 1)]
    found = f"all=0-, {name.lower()}={range_}" if range_ else "all=0-"
    assert value([*others, *cells(name, *ratios)], slower=1.5) == found


def test_calls_that_were_not_offloaded_spoil_the_measurement() -> None:
    head = "fanin: calls of all ranks        offloaded            bytes  left to MPI  why\n"
    assert mpi_shim.left_to_mpi("nothing") is None
    assert mpi_shim.left_to_mpi(head + "fanin: Bcast     4       2048        0\n") == ""
    assert mpi_shim.left_to_mpi(head + "fanin: Bcast     4       2048        3  THRESHOLD 3\n") == "Bcast 3 THRESHOLD 3"


class OneOfThree:
    """A world in which the others bring what they must; the rank that is tested is `rank`."""

    def __init__(self, rank: int) -> None:
        self.rank, self.size = rank, 3
        self.world: Any = self

    def __getattr__(self, name: str) -> functools.partial[None]:
        return functools.partial(self._call, name)

    def _call(self, name: str, *arguments: Any) -> None:
        whole = np.repeat([1.0, 2.0, 3.0], 4)
        results = {"Allgather": whole, "Gather": whole, "Scatter": self.rank + 1.0, "Bcast": 1.0}
        result = arguments[0] if name == "Bcast" else arguments[1] if len(arguments) > 1 else None
        result = result[0] if isinstance(result, tuple) else result
        if result is not None:
            result[:] = results.get(name.removesuffix("v"), 6.0)


@pytest.mark.parametrize("rank", [0, 2])
@pytest.mark.parametrize("name", COLLECTIVES)
def test_results_of_every_collective_are_compared(name: str, rank: int) -> None:
    measured = rank_program.Collective(cast(rank_program.Mpi, OneOfThree(rank)), name, 12)
    assert len(measured.time(1, 2)) == 2
    assert measured.wrong() == 0
    measured.call = functools.partial(lambda: None)
    measured.time(1, 2)
    assert measured.wrong() == len(measured.expected)


def test_missing_mpi(tmp_path: Any) -> None:
    result = CliRunner().invoke(app, ["bench", "thresholds", "--peers", str(tmp_path)])
    assert result.exit_code == 2
    assert "there is no MPI 'open-mpi'" in result.stderr

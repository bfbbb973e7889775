"""Thresholds for the MPI shim: the collectives and sizes of an MPI that are worth offloading, measured.

The MPI alone and the same MPI with the shim take turns for every collective and size. A call that takes more than
`slower` times as long on the devices is left to the MPI. The result is a value of FANIN_MPI_THRESHOLDS.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fanin_tools.bench import mpi_shim
from fanin_tools.bench.contenders import Contender
from fanin_tools.bench.progress import Steps
from fanin_tools.bench.samples import Summary
from fanin_tools.bench.session import Session
from fanin_tools.errors import ToolError
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.quantities import render_size

COLLECTIVES = (
    "Allreduce",
    "Reduce",
    "Reduce_scatter",
    "Reduce_scatter_block",
    "Bcast",
    "Allgather",
    "Allgatherv",
    "Gather",
    "Gatherv",
    "Scatter",
    "Scatterv",
    "Barrier",
)
SIZES = (8, 512, 4 << 10, 32 << 10, 256 << 10, 2 << 20, 16 << 20)
COUNTS_OF_ROOT = ("Gatherv", "Scatterv")  # only the root knows the sizes: offloaded at all sizes, or at none
UNITS = ((1 << 30, "g"), (1 << 20, "m"), (1 << 10, "k"))


@dataclass(frozen=True)
class Cell:
    """One collective at one size: microseconds of the MPI alone, and with the devices."""

    collective: str
    bytes: int
    alone: float
    offloaded: float


def measure(running: Running, pair: Sequence[Contender], sizes: Sequence[int], rounds: int, steps: Steps) -> list[Cell]:
    """Measure every collective at every size. pair: an MPI, and the same MPI with the shim.

    Raises:
        ToolError: NOT_SUPPORTED if the shim has left calls to the MPI.
    """
    found: list[Cell] = []
    with contextlib.ExitStack() as stack:
        sessions = [stack.enter_context(contender.start(running)) for contender in pair]
        for collective in COLLECTIVES:
            for size in sizes if collective != "Barrier" else sizes[:1]:
                steps.next(f"{collective}: {render_size(size)}")
                found.append(Cell(collective, size, *_medians(sessions, collective, size, rounds)))
    left = mpi_shim.left_to_mpi(sessions[1].said)
    if left is None or left:
        cause = f"{pair[1].title} has left calls to the MPI: {left or 'all'}"
        raise ToolError("NOT_SUPPORTED", cause, "unset FANIN_MPI_THRESHOLDS; see that the devices have room")
    return found


def _medians(sessions: Sequence[Session], collective: str, size: int, rounds: int) -> list[float]:
    times: list[list[int]] = [[] for _ in sessions]
    for session in sessions:
        session.prepare(size, collective)
    for _ in range(rounds):
        for number, session in enumerate(sessions):
            times[number] += session.turn(size)
    for session in sessions:
        session.release()
    return [Summary.of(each).median for each in times]


def value(cells: Sequence[Cell], slower: float) -> str:
    """The value of FANIN_MPI_THRESHOLDS: for each collective the longest row of sizes that is worth offloading."""
    ranges = {name: _range([cell for cell in cells if cell.collective == name], slower) for name in COLLECTIVES}
    return ", ".join(["all=0-", *(f"{name.lower()}={range_}" for name, range_ in _unlike(ranges).items())])


def _unlike(ranges: Mapping[str, str]) -> dict[str, str]:
    return {name: range_ for name, range_ in ranges.items() if range_ != "0-"}


def _range(cells: Sequence[Cell], slower: float) -> str:
    """LEAST-MOST, LEAST- or off, as the shim reads them; of counts that only the root knows 0- or off."""
    best: list[int] = []
    row: list[int] = []
    for cell in cells:
        row = [*row, cell.bytes] if cell.offloaded <= slower * cell.alone else []
        best = row if len(row) > len(best) else best
    if not best or (cells[0].collective in COUNTS_OF_ROOT and len(best) < len(cells)):
        return "off"
    least = "0" if best[0] == cells[0].bytes else _size(best[0])
    return f"{least}-{'' if best[-1] == cells[-1].bytes else _size(best[-1])}"


def _size(count: int) -> str:
    for factor, unit in UNITS:
        if count % factor == 0:
            return f"{count // factor}{unit}"
    return str(count)

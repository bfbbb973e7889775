"""`fanin bench thresholds`: the collectives of an MPI that are worth offloading, as a setting of the shim."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fanin_tools.cli import options
from fanin_tools.cli.output import print_json, print_table, reporting
from fanin_tools.errors import UsageError
from fanin_tools.progress import print_progress
from fanin_tools.quantities import render_size, render_time

if TYPE_CHECKING:
    from fanin_tools.bench.contenders import Contender
    from fanin_tools.bench.setups import Setup
    from fanin_tools.bench.thresholds import Cell


@reporting
def thresholds(
    mpi: Annotated[str, typer.Option(help="The MPI, as a contender of fanin bench: open-mpi or mpich.")] = "open-mpi",
    ranks: Annotated[int, typer.Option(min=2, help="On one node; with --netns on a host each.")] = 4,
    netns: options.Netns = False,
    slower: Annotated[
        float, typer.Option(min=1.0, help="Leave a call to the MPI if it takes so many times as long.")
    ] = 1.5,
    sizes: Annotated[str, typer.Option(help="Bytes of the message, as in 8,4K,1M.")] = "",
    rounds: Annotated[int, typer.Option(min=1, help="Turns of both at each size.")] = 3,
    peers: Annotated[Path, typer.Option(help="Folder of the MPIs' environments (make peers makes it).")] = Path(
        ".bench"
    ),
    name: options.Name = "thresholds",
    json_output: options.Json = False,
) -> None:
    """Every collective of an MPI with and without the devices, and the FANIN_MPI_THRESHOLDS that follows."""
    from fanin_tools.bench import setups
    from fanin_tools.bench.thresholds import SIZES, value

    variants = setups.OVER_NETWORK if netns else setups.Setup().variants
    setup = setups.Setup(ranks, netns=netns, variants=variants, bound=False)  # as users start their MPI
    cells = _measure(setup, mpi, setups.parse_sizes(sizes) if sizes else SIZES, rounds, peers, name)
    found = value(cells, slower)
    if json_output:
        print_json({"setup": setup.title, "mpi": mpi, "thresholds": found, "rows": [vars(cell) for cell in cells]})
        return
    rows = [(cell.collective, render_size(cell.bytes), *_times(cell)) for cell in cells]
    print_table(f"{mpi}, {setup.title}", ("collective", "bytes", "alone", "with Fanin", "ratio"), rows)
    typer.echo(f"FANIN_MPI_THRESHOLDS={found!r}")


def _measure(setup: Setup, mpi: str, sizes: tuple[int, ...], rounds: int, peers: Path, name: str) -> list[Cell]:
    from fanin_tools.bench import thresholds
    from fanin_tools.bench.progress import steps_of
    from fanin_tools.fabric.generate import Plan
    from fanin_tools.fabric.lease import leased

    pair = _pair(setup, mpi, peers)
    count = (len(thresholds.COLLECTIVES) - 1) * len(sizes) + 1
    with steps_of(count, print_progress) as steps, leased(Plan(name, setup.shape), steps.note) as running:
        return thresholds.measure(running, pair, sizes, rounds, steps)


def _pair(setup: Setup, mpi: str, peers: Path) -> list[Contender]:
    """An MPI, and the same MPI with the shim."""
    from fanin_tools.bench.contenders import contenders

    present = {contender.name: contender for contender in contenders(setup, peers)}
    names = [mpi, f"{mpi}-with-fanin"]
    if not all(name in present for name in names):
        remedy = "run make peers, or name another with --mpi or --peers"
        raise UsageError(f"there is no MPI {mpi!r} in {peers}", remedy)
    return [present[name] for name in names]


def _times(cell: Cell) -> tuple[str, str, str]:
    ratio = cell.alone / cell.offloaded
    return render_time(cell.alone * 1e-6), render_time(cell.offloaded * 1e-6), f"{ratio:.2f}"

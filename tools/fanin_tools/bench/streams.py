"""Streams of short collectives: operations a second of an MPI alone, and with Fanin in its calls.

A program in C (streams_program.c) makes both kinds of calls in turns, in one process for each rank.
"""

import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fanin_tools.bench import mpi_shim, peers
from fanin_tools.bench.peers import Peer
from fanin_tools.errors import ToolError, UsageError
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.launch import mpirun
from fanin_tools.progress import ProgressCallback
from fanin_tools.quantities import counted, render_size
from fanin_wire.installation import make_command

SOURCE = Path(__file__).with_name("streams_program.c")
SIZES = (8, 64, 512, 4096)
RANKS = (1, 2, 4, 8)
ELEMENT = 8  # bytes
MAX_SIZE = 1 << 20  # bytes, as in the program
YIELDING = {"MPIR_CVAR_DEFAULT_THREAD_LEVEL": "MPI_THREAD_MULTIPLE"}  # for MPICH, see `peers`
LIMIT_SECONDS = 1800
COLUMNS = ("collective", "bytes", "ranks")


@dataclass(frozen=True)
class Row:
    """Microseconds of an operation. bytes: of a rank's block. left: why calls were left to the MPI, or ""."""

    mpi: str
    ranks: int
    collective: str
    bytes: int
    alone: float
    with_fanin: float
    left: str


def check_sizes(sizes: Sequence[int]) -> None:
    """Raise UsageError unless the program measures all of these sizes."""
    if wrong := [size for size in sizes if size % ELEMENT or not 0 < size <= MAX_SIZE]:
        cause = f"a stream of {render_size(wrong[0])} can not be measured"
        raise UsageError(cause, f"give multiples of {ELEMENT} B up to {render_size(MAX_SIZE)}")


def measure(
    running: Running,
    folder: Path,
    ranks: Sequence[int],
    sizes: Sequence[int],
    progress: ProgressCallback,
    forced: bool = True,
) -> list[Row]:
    """Measure every collective with every MPI in `folder`, over TCP if the fabric's hosts are namespaces.

    forced: every call on the devices, not only those that the default settings choose. Raises UsageError NO_PEERS if
    `folder` has no MPI; ToolError BUILD_FAILED, PROGRAM_FAILED.
    """
    present = peers.installed(folder)
    if not present:
        raise UsageError(
            f"no MPI in {folder}", f"{make_command('peers')} installs them; --peers names their folder", "NO_PEERS"
        )
    rows = []
    for peer, binaries in present:
        with tempfile.TemporaryDirectory(prefix="fanin-streams-") as place:
            remedy = f"install a C compiler, and the peers anew: {make_command('peers')}"
            program = mpirun.compile_program(str(binaries / "mpiexec"), SOURCE, Path(place) / "program", remedy)
            for count in ranks:
                progress(f"{peer.title}, {counted(count, 'rank')} ...")
                rows += _measure(running, peer, binaries, program, count, sizes, forced)
    return rows


def _measure(
    running: Running, peer: Peer, binaries: Path, program: Path, ranks: int, sizes: Sequence[int], forced: bool
) -> list[Row]:
    route = "tree" if running.fabric.netns else "local"
    variables = mpi_shim.environment(running, ranks, route, forced) | YIELDING
    line = [str(program), *map(str, sizes)]
    command = peer.command(binaries, ranks, running.fabric, program.parent, line, variables)
    title = f"{peer.title}, {counted(ranks, 'rank')}"
    try:
        done = subprocess.run(
            command.line, env=command.environment, capture_output=True, text=True, stdin=subprocess.DEVNULL,
            timeout=LIMIT_SECONDS,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        remedy = "measure fewer ranks or shorter messages"
        raise ToolError("TIMEOUT", f"{title}: still running after {LIMIT_SECONDS} s", remedy) from None
    if done.returncode:
        said = " ".join((done.stderr or done.stdout).split())[-300:]
        raise ToolError("PROGRAM_FAILED", f"{title}: {said}", "see what it says")
    left = mpi_shim.calls_left(done.stdout + done.stderr)
    rows = []
    for words in (line.split("\t") for line in done.stdout.splitlines()):
        if len(words) == 4:
            name, size, alone, with_fanin = words
            why = left.get(name.split(",")[0], "there is nothing to offload") if forced else ""
            rows.append(Row(peer.title, ranks, name, int(size), float(alone), float(with_fanin), why))
    return rows


def cells(rows: Sequence[Row], forced: bool = True) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Columns, and rows by collective, length and number of ranks: operations a second of each MPI; without `forced`
    also the time with Fanin as a multiple of that without."""
    titles = tuple(dict.fromkeys(row.mpi for row in rows))
    of_each = ("with Fanin",) if forced else ("with Fanin", "time")
    columns = (*COLUMNS, *(column for title in titles for column in (title, *of_each)))
    lines: dict[tuple[str, int, int], dict[str, Row]] = {}
    for row in rows:
        lines.setdefault((row.collective, row.bytes, row.ranks), {})[row.mpi] = row
    width = 1 + len(of_each)
    return columns, [
        (
            *(collective, render_size(size), str(ranks)),
            *(cell for title in titles for cell in _cells(found.get(title))[:width]),
        )
        for (collective, size, ranks), found in lines.items()
    ]


def _cells(row: Row | None) -> tuple[str, str, str]:
    if row is None:
        return "", "", ""
    with_fanin = f"{_thousands(row.with_fanin)}{'*' if row.left else ''}"
    return _thousands(row.alone), with_fanin, f"{row.with_fanin / row.alone:.2f}"


def _thousands(microseconds: float) -> str:
    return f"{1000 / microseconds:,.0f}" if microseconds < 10 else f"{1000 / microseconds:.1f}"


def remarks(rows: Sequence[Row]) -> list[str]:
    """What the table's stars mean."""
    found = dict.fromkeys((row.mpi, row.ranks, row.left) for row in rows if row.left)
    return [f"* {mpi}, {counted(ranks, 'rank')}: calls were left to the MPI: {why}" for mpi, ranks, why in found]


def markdown(rows: Sequence[Row], hosts: int = 1, forced: bool = True) -> str:
    """hosts: nodes of the fabric."""
    columns, lines = cells(rows, forced)
    table = [columns, ("---",) * len(columns), *lines]
    where, given = ("One node", "") if hosts == 1 else ("A rank on each of several hosts", f" --nodes {hosts}")
    settings = " --default-settings" * (not forced)
    heading = (
        "# Streams of short operations\n\nOperations a second, in thousands: a rank calls one after the other, as fast "
        f"as it can.\n{where}; bytes are those of a rank's block. "
        f"Made by `fanin bench streams{given}{settings} --into`.\n\n"
    )
    if not forced:
        heading += "Fanin has its default settings. *time*: with Fanin, as a multiple of that of the MPI alone.\n\n"
    notes = "".join(f"\n{remark}\n" for remark in remarks(rows))
    return heading + "".join(f"| {' | '.join(line)} |\n" for line in table) + notes

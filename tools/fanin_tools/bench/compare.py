"""Measure all contenders in turns, size after size, so that other load affects all of them."""

import contextlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field

from fanin_tools.bench import mpi_shim
from fanin_tools.bench.bounds import bound_us
from fanin_tools.bench.contenders import Contender
from fanin_tools.bench.progress import Steps
from fanin_tools.bench.samples import Summary
from fanin_tools.bench.session import Session
from fanin_tools.bench.setups import Setup
from fanin_tools.errors import ToolError
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.progress import ProgressCallback
from fanin_tools.quantities import render_size

SHARE_OF_MEMORY = 0.6  # share of the free memory, for the arrays of all contenders


@dataclass(frozen=True)
class Row:
    """One contender at one size. ours: whether it is Fanin."""

    contender: str
    ours: bool
    bytes: int
    microseconds: Summary
    bound_us: float | None

    @property
    def bandwidth(self) -> float:
        """Bytes of the message per second of the median time."""
        return self.bytes / self.microseconds.median * 1e6

    def as_dict(self) -> dict[str, object]:
        return asdict(self) | {"bandwidth": self.bandwidth}


@dataclass(frozen=True)
class Comparison:
    """All rows of a set-up. shortfalls: by MPI with the shim, the calls that were not offloaded; "" if none."""

    setup: Setup
    rows: tuple[Row, ...]
    shortfalls: Mapping[str, str] = field(default_factory=dict)

    @property
    def contenders(self) -> list[tuple[str, bool]]:
        """Titles, and whether each is ours, in the order of the turns."""
        return list(dict.fromkeys((row.contender, row.ours) for row in self.rows))

    @property
    def sizes(self) -> list[int]:
        return sorted({row.bytes for row in self.rows})

    def row(self, contender: str, size: int) -> Row:
        return next(row for row in self.rows if (row.contender, row.bytes) == (contender, size))

    def ratio(self, contender: str, size: int) -> float | None:
        """Time of the best peer divided by a contender's; None without peers."""
        peers = [row.microseconds.median for row in self.rows if row.bytes == size and not row.ours]
        return min(peers) / self.row(contender, size).microseconds.median if peers else None

    @property
    def remarks(self) -> list[str]:
        """Remarks on the columns of MPIs with the shim."""
        return [f"{title}: {words or 'all calls offloaded'}" for title, words in self.shortfalls.items()]

    def as_dict(self) -> dict[str, object]:
        rows = [row.as_dict() | {"ratio": self.ratio(row.contender, row.bytes)} for row in self.rows]
        return {
            "setup": asdict(self.setup) | {"lanes": self.setup.lane_count, "bound": self.setup.binds},
            "title": self.setup.title,
            "rows": rows,
            "shortfalls": dict(self.shortfalls),
        }


def compare(
    running: Running, setup: Setup, present: Sequence[Contender], sizes: Sequence[int], rounds: int, steps: Steps
) -> Comparison:
    """Measure every contender at every size, `rounds` times in turns."""
    rows: list[Row] = []
    sessions: list[Session] = []
    with contextlib.ExitStack() as stack:
        for contender in present:
            steps.note(f"{setup.title}: starting {contender.title}")
            sessions.append(stack.enter_context(contender.start(running)))
        for size in sizes:
            times = _in_turns(present, sessions, size, rounds, f"{setup.title}, {render_size(size)}", steps)
            rows += _rows(setup, size, zip(present, times, strict=True))
    return Comparison(setup, tuple(rows), _shortfalls(present, sessions))


def _in_turns(
    present: Sequence[Contender], sessions: Sequence[Session], size: int, rounds: int, title: str, steps: Steps
) -> list[list[int]]:
    """The times of each contender over all rounds, in nanoseconds."""
    times: list[list[int]] = [[] for _ in present]
    for session in sessions:
        session.prepare(size)
    for _ in range(rounds):
        for number, session in enumerate(sessions):
            steps.next(f"{title}: {present[number].title}")
            times[number] += session.turn(size)
    for session in sessions:
        session.release()
    return times


def _rows(setup: Setup, size: int, times: Iterable[tuple[Contender, list[int]]]) -> list[Row]:
    bound = bound_us(setup, size)
    return [Row(contender.title, contender.ours, size, Summary.of(each), bound) for contender, each in times]


def _shortfalls(present: Sequence[Contender], sessions: Sequence[Session]) -> dict[str, str]:
    """Of each MPI with the shim, whose ranks report at their end."""
    measured = zip(present, sessions, strict=True)
    return {who.title: mpi_shim.shortfall(session.said, session.calls) for who, session in measured if who.shim}


def sizes_that_fit(sizes: Sequence[int], arrays: int, progress: ProgressCallback) -> list[int]:
    """The sizes of which `arrays` pairs of arrays fit into memory; the user is told of the others. Raises ToolError
    NO_RESOURCES if none fits."""
    room = SHARE_OF_MEMORY * os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    left_out = [size for size in sizes if 2 * size * arrays > room]
    if len(left_out) == len(sizes):
        cause = f"{arrays} pairs of arrays of {render_size(min(sizes))} do not fit into the memory that is free"
        raise ToolError("NO_RESOURCES", cause, "measure shorter messages, or fewer ranks")
    if left_out:
        progress(f"left out for want of memory: {', '.join(map(render_size, left_out))}")
    return [size for size in sizes if size not in left_out]

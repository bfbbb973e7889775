"""Ours and the peer's, in turns, over every setting and size."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from fanin_tools.bench import peer
from fanin_tools.bench.settings import RANKS, ROUNDS, SETTINGS, Setting, median_us, repetitions, slowest_rank
from fanin_tools.errors import ToolError
from fanin_tools.fabric.devices import Say
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.job import job_file
from fanin_tools.job.case import Case
from fanin_tools.job.crew import Crew
from fanin_tools.job.placement import place

Times = dict[tuple[Setting, int], list[int]]


@dataclass(frozen=True)
class Row:
    """Medians in microseconds of one setting and size; peer_us is None where there is no peer."""

    setting: str
    bytes: int
    ours_us: float
    peer_us: float | None

    def as_dict(self) -> dict[str, object]:
        """The same for `--json`."""
        return asdict(self)


def compare(running: Running, sizes: list[int], binaries: Path | None, say: Say) -> list[Row]:
    """Measure every setting and size, `ROUNDS` times in turns. binaries: of the peer, or None."""
    ours: Times = {}
    theirs: Times = {}
    with Crew(running, RANKS) as crew:
        for number in range(ROUNDS):
            for setting in SETTINGS:
                say(f"round {number + 1} of {ROUNDS}: {setting.title} ...")
                _collect(ours, setting, measure(running, crew, setting, sizes))
                if binaries is not None:
                    _collect(theirs, setting, peer.measure(binaries, setting.transport, sizes))
    return [
        Row(setting.title, size, median_us(times), median_us(theirs[setting, size]) if theirs else None)
        for (setting, size), times in ours.items()
    ]


def _collect(into: Times, setting: Setting, times: dict[int, list[int]]) -> None:
    for size, values in times.items():
        into.setdefault((setting, size), []).extend(values)


def measure(running: Running, crew: Crew, setting: Setting, sizes: list[int]) -> dict[int, list[int]]:
    """Times in nanoseconds of the slowest rank, for each size, after one reduction that does not count."""
    placement = place(running.fabric, RANKS, setting.route)
    crew.join(placement, job_file.describe(running, placement))
    times = {}
    for size in sizes:
        crew.ask(RANKS, "prepare", case=Case("allreduce", size // 4, seed=size).as_dict())
        crew.ask(RANKS, "run", repeat=1)
        answers = crew.ask(RANKS, "run", repeat=repetitions(size))
        times[size] = slowest_rank([_durations(answer) for answer in answers])
        _refuse_wrong(crew, setting, size)
    crew.ask(RANKS, "leave")
    return times


def _durations(answer: dict[str, list[int]]) -> list[int]:
    return [end - start for start, end in zip(answer["start_ns"], answer["end_ns"], strict=True)]


def _refuse_wrong(crew: Crew, setting: Setting, size: int) -> None:
    """A fast wrong result is no result."""
    wrong = sum(answer["wrong"] for answer in crew.ask(RANKS, "verify"))
    if wrong:
        cause = f"{setting.title}, {size} bytes: {wrong} elements have a wrong bit"
        raise ToolError("WRONG_RESULT", cause, "this is a defect: report it with the output of fanin doctor --json")

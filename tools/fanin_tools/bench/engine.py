"""Segments per second through a switch's engine on one core: parse, bitmap, reduce, encapsulate, without a port."""

from __future__ import annotations

import functools
import statistics
import time
from dataclasses import asdict, dataclass

from fanin_sim.scenario.switch_load import ICRC_IN_AND_OUT, ICRC_IN_ONE_OUT, NO_ICRC, Load
from fanin_tools.bench.network import SharedWords, Task, run_together
from fanin_tools.errors import ToolError
from fanin_tools.progress import ProgressCallback
from fanin_tools.quantities import render_size

PAYLOADS = (256, 1024, 4096)  # bytes
CHECKS = {
    NO_ICRC: "no ICRC",
    ICRC_IN_ONE_OUT: "ICRC in, and of one result of a segment",
    ICRC_IN_AND_OUT: "ICRC in and out",
}
SMALL, LARGE = 256 << 10, 64 << 20  # bytes of packets: fit into a second-level cache; exceed all caches
SECONDS = 0.5  # of each measurement
MIN_ROUNDS = 5


@dataclass(frozen=True)
class Row:
    """Million incoming segments per second: median and best of the rounds. working_set: bytes."""

    payload: int
    working_set: int
    check: str
    segments_per_us: float
    best_per_us: float

    def beside(self, other: Row) -> Row:
        """The sum of two engines that run at the same time."""
        rates = self.segments_per_us + other.segments_per_us, self.best_per_us + other.best_per_us
        return Row(self.payload, self.working_set + other.working_set, self.check, *rates)


def measure(cores: int, progress: ProgressCallback) -> list[Row]:
    """Measure every payload size, from cache and from memory, with and without ICRC. cores: number of engines."""
    rows = []
    for payload in PAYLOADS:
        for volume in (SMALL, LARGE):
            segments = volume // (4 * payload)
            slots = min(2048, 1 << segments.bit_length() - 1)
            progress(f"payload {render_size(payload)}, {render_size(volume)} of packets for each core ...")
            rows += _at_once(cores, payload, segments, slots)
    return rows


def _at_once(cores: int, payload: int, segments: int, slots: int) -> list[Row]:
    """The sums over engines that run at the same time."""
    if cores == 1:
        return _every_check(payload, segments, slots)
    words = SharedWords(cores)
    tasks: list[Task] = [
        ("", lambda number=number: [asdict(row) for row in _every_check(payload, segments, slots, words, number)])  # type: ignore[misc]
        for number in range(cores)
    ]
    each = [[Row(**row) for row in rows] for rows in run_together(tasks)]
    return [functools.reduce(Row.beside, rows) for rows in zip(*each, strict=True)]


def _every_check(
    payload: int, segments: int, slots: int, words: SharedWords | None = None, number: int = 0
) -> list[Row]:
    """words: the barrier at which engine `number` waits for the others before each kind of check."""
    load, rows = Load(payload, segments, slots), []
    for icrc in CHECKS:
        if words is not None:
            words.barrier(number, words.count)
        rows.append(_measure(load, payload, icrc))
    return rows


def _measure(load: Load, payload: int, icrc: int) -> Row:
    rates: list[float] = []
    end = time.perf_counter() + SECONDS
    while len(rates) < MIN_ROUNDS or time.perf_counter() < end:
        load.restore()
        sent, seconds = load.run(icrc)
        rates.append(len(load.packets) / seconds * 1e-6)
        if sent != len(load.packets):  # each segment has four contributions and four results
            cause = f"the switch sent {sent} packets for {len(load.packets)} contributions"
            raise ToolError("WRONG_RESULT", cause, "this is a defect: report it with the output of fanin doctor --json")
    return Row(payload, load.working_set, CHECKS[icrc], statistics.median(rates), max(rates))

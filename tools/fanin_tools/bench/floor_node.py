"""The floor of one node: its ranks and the lanes of its NIC."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fanin_nic.daemon.splitter import split
from fanin_tools.bench import floor
from fanin_tools.bench.floor import SUM, Row, SharedState, address_of, rounds_of, shared_bytes, words_of
from fanin_tools.bench.floor_node_kernels import run_lane
from fanin_tools.bench.network import Task, run_together
from fanin_tools.bench.samples import Summary
from fanin_tools.progress import ProgressCallback
from fanin_tools.quantities import render_size
from fanin_wire.abi import LONG_BYTES

PAGE = 4096
FEWEST_BYTES = int(split.MIN_BYTES)  # of a lane: a device gives shorter messages to one lane


def measure(ranks: int, lanes: int, sizes: Sequence[int], progress: ProgressCallback) -> list[Row]:
    """Measure every size with every number of yields."""
    compile_all()
    rows = []
    for size in sizes:
        progress(f"{render_size(size)} ...")
        for rank_yields, lane_yields in floor.YIELD_COUNTS:
            found = FloorMeasurement(ranks, lanes, size, rank_yields, lane_yields).run()
            rows.append(Row(size, False, rank_yields, lane_yields, found))
    return rows


def compile_all() -> None:
    """Compile the kernels once, before processes are forked that would each compile them."""
    none, events, nowhere = np.zeros(0, np.uint64), np.zeros(0, np.int32), np.uint64(0)
    floor.compile_rank()
    run_lane(none, none, nowhere, none, 0, events, 0, 0, none, none, nowhere, nowhere, SUM, False)


class FloorMeasurement:
    """One measurement: the memory that its processes share, and the work of each process."""

    def __init__(self, ranks: int, lanes: int, size: int, rank_yields: int, lane_yields: int) -> None:
        self._ranks, self._bytes = ranks, size
        self._lanes = max(1, min(lanes, size // FEWEST_BYTES))
        self._rank_yields, self._lane_yields = rank_yields, lane_yields
        self._data = [shared_bytes(size) for _ in range(ranks)]
        self._results = [shared_bytes(size) for _ in range(ranks)]
        for rank, data in enumerate(self._data):
            data.view(np.float32)[:] = floor.elements(size) * np.float32(rank + 1)
        self._shared = SharedState(ranks, self._lanes, ranks + self._lanes, apart=False)

    def run(self) -> Summary:
        """Run all rounds."""
        tasks: list[Task] = [("", lambda rank=rank: self._rank(rank)) for rank in range(self._ranks)]  # type: ignore[misc]
        tasks += [("", lambda lane=lane: self._lane(lane)) for lane in range(self._lanes)]  # type: ignore[misc]
        try:
            found = run_together(tasks)
        finally:
            self._shared.close()
        return floor.summary_of(found[: self._ranks], [result.view(np.float32) for result in self._results])

    def _rank(self, rank: int) -> list[int]:
        return self._shared.run_rank(rank, self._rank_yields, self._bytes)

    def _part(self, lane: int) -> tuple[np.uint64, np.uint64]:
        """First and last byte of a lane: whole pages, but for the last."""
        pages = -(-self._bytes // PAGE)
        first, end = (min(self._bytes, -(-pages * number // self._lanes) * PAGE) for number in (lane, lane + 1))
        return np.uint64(first), np.uint64(end)

    def _lane(self, lane: int) -> bool:
        shared, own = self._shared, self._ranks + lane
        ranks = range(self._ranks)
        shared.barrier(own)
        return bool(
            run_lane(
                words_of(shared.begun(rank, lane) for rank in ranks),
                words_of(shared.done(rank, lane) for rank in ranks),
                shared.sleeping_flag(own),
                words_of(shared.sleeping_flag(rank) for rank in ranks),
                shared.event(own),
                np.array([shared.event(rank) for rank in ranks], np.int32),
                self._lane_yields,
                sum(rounds_of(self._bytes)),
                words_of(address_of(data) for data in self._data),
                words_of(address_of(result) for result in self._results),
                *self._part(lane),
                SUM,
                self._bytes >= LONG_BYTES,
            )
        )

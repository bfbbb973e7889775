"""What an allreduce costs without an engine: the same processes, the same hops, the same bytes.

Over hosts each rank rings its NIC (a word of shared memory, an eventfd if it sleeps), the NIC sends the message to the
switch, which adds up what all have sent and sends the sum to all NICs, which tell their ranks (`floor_tree`). On one
node the lanes of a NIC add up the memory of its ranks (`floor_node`). Nothing is checked, kept or asked for again: no
device that waits and moves its data in this way can be faster. A device that `checks` takes CRCs, and copies results,
as one must that can not trust what comes. Everybody yields so many times before he sleeps; which numbers are best
depends on the cores.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from fanin_nic.engine.segment.kernels import kernel_table
from fanin_tools.bench.floor_kernels import run_rank
from fanin_tools.bench.network import SharedWords
from fanin_tools.bench.samples import Summary, slowest_rank
from fanin_tools.errors import ToolError
from fanin_wire.abi import DType, Op

YIELD_COUNTS = ((0, 0), (3, 3), (3, 50), (50, 50))  # of ranks, of devices
FIRST = 200  # rounds of short messages that do not count
ROUNDS = 2000
VOLUME = 400 << 20  # bytes of a rank's messages: what long ones are repeated for
MIN_ROUNDS = 20
SUM = np.uint64(kernel_table()[Op.SUM][DType.F32])


@dataclass(frozen=True)
class Row:
    """Yields before sleep, and the time of the slowest rank. checks: what comes, as a device does."""

    bytes: int
    checks: bool
    rank_yields: int
    device_yields: int
    microseconds: Summary


def best(rows: Iterable[Row]) -> list[Row]:
    """Of each size, and of devices that check and that do not, the row with the best number of yields."""
    found: dict[tuple[int, bool], Row] = {}
    for row in sorted(rows, key=lambda row: row.microseconds.median, reverse=True):
        found[row.bytes, row.checks] = row
    return [found[key] for key in sorted(found)]


def rounds_of(size: int) -> tuple[int, int]:
    """Rounds that do not count, and those that do."""
    count = max(min(MIN_ROUNDS, ROUNDS), min(ROUNDS, VOLUME // size))
    return min(FIRST, count), count


def elements(size: int) -> np.ndarray:
    """Those of a message of `size` bytes, f32: no two super-packets of it are alike."""
    return np.resize(np.arange(1009, dtype=np.float32), size // 4)


def shared_bytes(size: int) -> np.ndarray:
    """Memory that forked processes share, uint8; written once, so that it is there."""
    memory = np.frombuffer(mmap.mmap(-1, size), np.uint8)
    memory[:] = 0
    return memory


def address_of(memory: np.ndarray) -> np.uint64:
    """For compiled code."""
    return np.uint64(memory.ctypes.data)


class SharedState:
    """The words and eventfds by which ranks and devices wait for each other: `devices` that are the same for all
    ranks, or (`apart`) one for each rank alone."""

    def __init__(self, ranks: int, devices: int, participants: int, *, apart: bool) -> None:
        self.ranks, self.participants = ranks, participants
        self._of_rank = 1 if apart else devices
        waiters = ranks + devices
        self._words = SharedWords(participants + waiters + 2 * ranks * self._of_rank)
        self._events = [os.eventfd(0, os.EFD_NONBLOCK) for _ in range(waiters)]
        self._apart = apart

    def close(self) -> None:
        """Of the process that has made it."""
        for event in self._events:
            os.close(event)

    def barrier(self, number: int) -> None:
        """Wait until everybody is here. number: of the one who has come."""
        self._words.barrier(number, self.participants)

    def sleeping_flag(self, participant: int) -> np.uint64:
        """The word of one who may sleep: a rank, or a device, which are numbered behind the ranks."""
        return self._words.address(self.participants + participant)

    def event(self, participant: int) -> int:
        """His eventfd."""
        return self._events[participant]

    def begun(self, rank: int, device: int) -> np.uint64:
        """The round that a rank has begun at a device of its own."""
        return self._pair(rank, device)

    def done(self, rank: int, device: int) -> np.uint64:
        """The round that a device has done for a rank."""
        return np.uint64(self._pair(rank, device) + np.uint64(SharedWords.LINE))

    def _pair(self, rank: int, device: int) -> np.uint64:
        return self._words.address(self.participants + len(self._events) + 2 * (rank * self._of_rank + device))

    def run_rank(self, rank: int, yields: int, size: int) -> list[int]:
        """Nanoseconds of each round that counts; none if somebody does not answer any more."""
        first, count = rounds_of(size)
        times = np.zeros(first + count, np.int64)
        devices = [rank] if self._apart else list(range(self._of_rank))
        own = range(self._of_rank)
        self.barrier(rank)
        good = run_rank(
            words_of(self.begun(rank, device) for device in own),
            words_of(self.done(rank, device) for device in own),
            self.sleeping_flag(rank),
            words_of(self.sleeping_flag(self.ranks + device) for device in devices),
            self.event(rank),
            np.array([self.event(self.ranks + device) for device in devices], np.int32),
            yields,
            len(times),
            address_of(times),
        )
        return times[first:].tolist() if good else []


def words_of(addresses: Iterable[np.uint64]) -> np.ndarray:
    """Addresses for compiled code."""
    return np.array(list(addresses), np.uint64)


def compile_rank() -> None:
    """Once, before there are processes that would each do so."""
    nothing, nowhere = np.zeros(0, np.uint64), np.uint64(0)
    run_rank(nothing, nothing, nowhere, nothing, 0, np.zeros(0, np.int32), 0, 0, nowhere)


def summary_of(ranks: Sequence[list[int]], results: Sequence[np.ndarray]) -> Summary:
    """Of the times of all ranks. results: payloads, f32. What rank r has brought was `elements`, times r + 1."""
    if not all(ranks):
        cause = "somebody waited two seconds in vain: a datagram was lost, or the cores were busy"
        raise ToolError("TIMEOUT", cause, "run it again, with fewer other programs, or shorter --sizes")
    expected = elements(4 * len(results[0])) * np.float32(len(ranks) * (len(ranks) + 1) // 2)
    if any((result != expected).any() for result in results):
        raise ToolError("WRONG_RESULT", "a sum is wrong", "this is a defect: report it with the output of fanin doctor")
    return Summary.of(slowest_rank(list(ranks)))

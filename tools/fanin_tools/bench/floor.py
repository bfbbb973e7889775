"""The floor: the cost of an allreduce without an engine, with the same processes, hops and bytes.

Over hosts each rank rings its NIC (a word of shared memory, and an eventfd if the NIC sleeps). The NIC sends the
message to the switch. The switch adds the messages of all NICs and sends the sum to them. They wake their ranks
(`floor_tree`). On one node the lanes of a NIC add the memory of its ranks (`floor_node`). Nothing is checked, kept or
sent again, so a device that waits and moves its data in this way can not be faster. A device that `checks` also
computes CRCs and copies results, as a device must that can not trust its input. Every process yields some times
before it sleeps; the best number of yields depends on the cores.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from fanin_nic.engine.kernels import kernel_table
from fanin_tools.bench.floor_kernels import run_rank
from fanin_tools.bench.network import SharedWords
from fanin_tools.bench.samples import Summary, slowest_rank
from fanin_tools.errors import ToolError
from fanin_wire.abi import DType, Op

YIELD_COUNTS = ((0, 0), (3, 3), (3, 50), (50, 50))  # of ranks, of devices
FIRST = 200  # rounds of short messages that do not count
ROUNDS = 2000
VOLUME = 400 << 20  # bytes of a rank's messages; it sets the number of rounds of long messages
MIN_ROUNDS = 20
SUM = np.uint64(kernel_table()[Op.SUM][DType.F32])


@dataclass(frozen=True)
class Row:
    """The time of the slowest rank. checks: whether devices check their input; *_yields: yields before sleep."""

    bytes: int
    checks: bool
    rank_yields: int
    device_yields: int
    microseconds: Summary


def best(rows: Iterable[Row]) -> list[Row]:
    """The row with the best number of yields, for each size, and for devices that check and devices that do not."""
    found: dict[tuple[int, bool], Row] = {}
    for row in sorted(rows, key=lambda row: row.microseconds.median, reverse=True):
        found[row.bytes, row.checks] = row
    return [found[key] for key in sorted(found)]


def rounds_of(size: int) -> tuple[int, int]:
    """Numbers of rounds that do not count, and that count."""
    count = max(min(MIN_ROUNDS, ROUNDS), min(ROUNDS, VOLUME // size))
    return min(FIRST, count), count


def elements(size: int) -> np.ndarray:
    """Elements of a message of `size` bytes, f32. No two super-packets are equal."""
    return np.resize(np.arange(1009, dtype=np.float32), size // 4)


def shared_bytes(size: int) -> np.ndarray:
    """Memory that forked processes share, uint8. It is written once, so that all its pages exist."""
    memory = np.frombuffer(mmap.mmap(-1, size), np.uint8)
    memory[:] = 0
    return memory


def address_of(memory: np.ndarray) -> np.uint64:
    """The address of an array, for compiled code."""
    return np.uint64(memory.ctypes.data)


class SharedState:
    """The words and eventfds by which ranks and devices wait for each other.

    Args:
        ranks: number of ranks.
        devices: number of devices, or of lanes.
        participants: number of processes at the barrier.
        apart: whether each rank has a device of its own; else all ranks use all devices.
    """

    def __init__(self, ranks: int, devices: int, participants: int, *, apart: bool) -> None:
        self.ranks, self.participants = ranks, participants
        self._of_rank = 1 if apart else devices
        waiters = ranks + devices
        self._words = SharedWords(participants + waiters + 2 * ranks * self._of_rank)
        self._events = [os.eventfd(0, os.EFD_NONBLOCK) for _ in range(waiters)]
        self._apart = apart

    def close(self) -> None:
        """Close the eventfds, in the process that created them."""
        for event in self._events:
            os.close(event)

    def barrier(self, number: int) -> None:
        """Wait until all participants have come. number: of this participant."""
        self._words.barrier(number, self.participants)

    def sleeping_flag(self, participant: int) -> np.uint64:
        """The address of the word that says whether a participant sleeps. Devices are numbered after the ranks."""
        return self._words.address(self.participants + participant)

    def event(self, participant: int) -> int:
        """The eventfd of a participant."""
        return self._events[participant]

    def begun(self, rank: int, device: int) -> np.uint64:
        """The address of the number of the round that a rank has begun at a device."""
        return self._pair(rank, device)

    def done(self, rank: int, device: int) -> np.uint64:
        """The address of the number of the round that a device has done for a rank."""
        return np.uint64(self._pair(rank, device) + np.uint64(SharedWords.LINE))

    def _pair(self, rank: int, device: int) -> np.uint64:
        return self._words.address(self.participants + len(self._events) + 2 * (rank * self._of_rank + device))

    def run_rank(self, rank: int, yields: int, size: int) -> list[int]:
        """Run all rounds of a rank. Returns nanoseconds of each round that counts; none after a timeout."""
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
    """Addresses as an array, for compiled code."""
    return np.array(list(addresses), np.uint64)


def compile_rank() -> None:
    """Compile the kernels once, before processes are forked that would each compile them."""
    nothing, nowhere = np.zeros(0, np.uint64), np.uint64(0)
    run_rank(nothing, nothing, nowhere, nothing, 0, np.zeros(0, np.int32), 0, 0, nowhere)


def summary_of(ranks: Sequence[list[int]], results: Sequence[np.ndarray]) -> Summary:
    """The summary of the times of all ranks. results: payloads, f32. Rank r contributed `elements` times r + 1."""
    if not all(ranks):
        cause = "a process waited two seconds in vain: a datagram was lost, or the cores were busy"
        raise ToolError("TIMEOUT", cause, "run it again, with fewer other programs, or shorter --sizes")
    expected = elements(4 * len(results[0])) * np.float32(len(ranks) * (len(ranks) + 1) // 2)
    if any((result != expected).any() for result in results):
        raise ToolError("WRONG_RESULT", "a sum is wrong", "this is a defect: report it with the output of fanin doctor")
    return Summary.of(slowest_rank(list(ranks)))

"""Time to make tensors in registered memory: python -m tests.torch.tensor_times, a part of make torch-bench.

It prints a table; docs/pytorch.md has the medians. One process, one NIC.
"""

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from fanin.membership.member import DeviceConnection
from fanin.verbs import MR, PD
from fanin_tools.errors import ToolError
from fanin_tools.fabric import lease
from fanin_tools.fabric.generate import Plan, Shape
from fanin_torch.registered_memory import RegisteredMemory

SHORT = [400 * (1 + number % 20) for number in range(2000)]  # bytes of each tensor
LONG = [(16 << 20) + number for number in range(8)]
FEW = 200  # regions: a device takes 256 from a process
ROUNDS = 9


class Sample(NamedTuple):
    """Tensors that lived until the last was made. regions: that a device had for them."""

    memory: str
    lengths: list[int]
    us_each: float
    regions: int


def timed(memory: str, lengths: list[int], make: Callable[[int], Any], regions: Callable[[], int]) -> Sample:
    """Make something of each length in bytes."""
    begin = time.perf_counter()
    made = [make(length) for length in lengths]
    seconds = time.perf_counter() - begin
    sample = Sample(memory, lengths, 1e6 * seconds / len(made), regions())
    del made
    return sample


def registered(pd: PD, lengths: list[int]) -> list[Sample]:
    """In registered memory without regions at first; and again, when the first tensors have ended."""
    memory = RegisteredMemory(pd)

    def sample(name: str) -> Sample:
        return timed(name, lengths, lambda length: memory.empty(length, torch.uint8), lambda: len(memory._regions))

    return [sample("registered"), sample("registered, made again")]


def one_round(pd: PD) -> list[Sample]:
    few = SHORT[:FEW]
    return [
        timed("ordinary", SHORT, lambda length: torch.empty(length, dtype=torch.uint8), lambda: 0),
        *registered(pd, SHORT),
        timed("a region for each short one, as before", few, lambda length: MR(pd, length), lambda: FEW),
        *registered(pd, LONG),
    ]


def table(pd: PD) -> str:
    """Medians of the rounds."""
    lines = ["| memory | tensors | bytes of each | microseconds each | regions |", "| --- | --- | --- | --- | --- |"]
    for samples in zip(*(one_round(pd) for _ in range(ROUNDS)), strict=True):
        memory, lengths, _, regions = samples[0]
        us = statistics.median(sample.us_each for sample in samples)
        span = f"{min(lengths):,} to {max(lengths):,}"
        lines.append(f"| {memory} | {len(lengths)} | {span} | {us:.1f} | {regions} |")
    return "\n".join(lines)


def main() -> None:
    try:
        with lease.leased(Plan(lease.private_name(), Shape(nodes=1, ranks_per_node=1)), print) as running:
            connection = DeviceConnection(running.state.socket(running.fabric.nics[0].name))
            connection.take()
            print(table(connection.pd))
            connection.release()
    except ToolError as error:
        sys.exit(f"fanin: {error}")


if __name__ == "__main__":
    main()

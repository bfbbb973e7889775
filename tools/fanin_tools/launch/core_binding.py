"""Binding: each rank of a job kept to one core, in turn, as the launchers of MPI do with `--bind-to core`.

Ranks that wait by yielding look alike to the scheduler, whoever else is on their core: it may leave three beside each
other, and the device with the fourth, for as long as the job lasts.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fanin_tools.errors import ToolError, UsageError

CHOICES = ("none", "core")
SIBLINGS = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"


def check(choice: str) -> None:
    """UsageError for what is none of CHOICES."""
    if choice not in CHOICES:
        raise UsageError(f"--bind-to {choice}: ranks are not bound to that", f"use one of {', '.join(CHOICES)}")


@contextmanager
def bound(rank: int) -> Iterator[None]:
    """What this thread starts in the block is kept to the core of its rank: of those that the thread may use."""
    usable = os.sched_getaffinity(0)
    present = cores(usable)
    core = present[rank % len(present)]
    try:
        _keep_to(core)
        yield
    finally:
        os.sched_setaffinity(0, usable)


def cores(usable: set[int]) -> list[set[int]]:
    """The cores behind some of the numbers that Linux gives to hardware threads: of each core these numbers."""
    found: list[set[int]] = []
    for thread in sorted(usable):
        if not any(thread in core for core in found):
            found.append(siblings(thread) & usable)
    return found


def siblings(thread: int) -> set[int]:
    """The hardware threads of a core, of which one is given; it alone where the system does not say."""
    try:
        ranges = Path(SIBLINGS.format(thread)).read_text().split(",")  # as in 0,4 or 0-1
        ends = [[int(end) for end in each.split("-")] for each in ranges]
    except (OSError, ValueError):
        return {thread}
    return {thread}.union(*(range(each[0], each[-1] + 1) for each in ends))


def _keep_to(core: set[int]) -> None:
    try:
        os.sched_setaffinity(0, core)
    except OSError as error:
        cause = f"a rank can not be kept to core {min(core)}: {error.strerror}"
        raise ToolError("NOT_BOUND", cause, "use --bind-to none") from error

"""Binding of each rank to one core, in turn, as MPI's `--bind-to core`.

The scheduler does not distinguish a rank that yields from one that computes. It may leave three ranks on one core, and
the device beside the fourth, for the whole job.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fanin_tools.errors import ToolError, UsageError

CHOICES = ("none", "core")
SIBLINGS = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"


def check(choice: str) -> None:
    """Raise UsageError unless `choice` is one of CHOICES."""
    if choice not in CHOICES:
        raise UsageError(f"--bind-to {choice}: ranks are not bound to that", f"use one of {', '.join(CHOICES)}")


@contextmanager
def bound(rank: int) -> Iterator[None]:
    """Bind processes that this thread starts in the block to the core of `rank`, of those that it may use."""
    usable = os.sched_getaffinity(0)
    present = cores(usable)
    core = present[rank % len(present)]
    try:
        _keep_to(core)
        yield
    finally:
        os.sched_setaffinity(0, usable)


def cores(usable: set[int]) -> list[set[int]]:
    """Group hardware threads by core. Only `usable` ones appear in the result."""
    found: list[set[int]] = []
    for thread in sorted(usable):
        if not any(thread in core for core in found):
            found.append(siblings(thread) & usable)
    return found


def siblings(thread: int) -> set[int]:
    """The hardware threads of `thread`'s core; only `thread` if the system does not say."""
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

"""Binding: each rank of a job kept to one core, in turn, as the launchers of MPI do with `--bind-to core`.

Ranks that wait by yielding look alike to the scheduler, whoever else is on their core: it may leave three beside each
other, and the device with the fourth, for as long as the job lasts.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from fanin_tools.errors import UsageError

CHOICES = ("none", "core")


def check(choice: str) -> None:
    """UsageError for what is none of CHOICES."""
    if choice not in CHOICES:
        raise UsageError(f"--bind-to {choice}: ranks are not bound to that", f"use one of {', '.join(CHOICES)}")


@contextmanager
def bound(rank: int) -> Iterator[None]:
    """What this thread starts in the block is kept to the core of its rank: of those that the thread may use."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {sorted(cores)[rank % len(cores)]})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)

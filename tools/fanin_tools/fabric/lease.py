"""A fabric for the time of one command: used if it is up, else brought up, and taken down by the last of its users."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from fanin_tools.fabric import lifecycle
from fanin_tools.fabric.daemons import ProgressCallback
from fanin_tools.fabric.description import Fabric, summary
from fanin_tools.fabric.generate import Plan
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.fabric.processes import ProcessIdentity


@contextlib.contextmanager
def leased(wanted: Fabric | Plan, progress: ProgressCallback) -> Iterator[Running]:
    """`wanted`, up. Left up afterwards if it was brought up to stay, or others use it."""
    leaseholder = ProcessIdentity.of(os.getpid())
    lifecycle.clean_up(progress)
    running = lifecycle.up(wanted, progress, leaseholder=leaseholder)
    try:
        if running.fresh:
            progress(f"fabric {wanted.name} is up for this command: {summary(running.fabric)}")
        yield running
    finally:
        lifecycle.release(wanted.name, leaseholder)


def private_name() -> str:
    """Of a fabric for this process alone: commands that run at the same time do not meet."""
    return f"run-{os.getpid()}"

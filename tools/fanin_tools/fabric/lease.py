"""Lease of a fabric for the time of one command. The last command that holds a lease takes the fabric down."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from fanin_tools.fabric import lifecycle
from fanin_tools.fabric.description import Fabric, summary
from fanin_tools.fabric.generate import Plan
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.fabric.processes import ProcessIdentity
from fanin_tools.progress import ProgressCallback


@contextlib.contextmanager
def leased(wanted: Fabric | Plan, progress: ProgressCallback) -> Iterator[Running]:
    """Lease the fabric `wanted` for the time of the block; bring it up if it is not up.

    At the end the fabric is taken down, unless `fanin fabric up` brought it up or other commands lease it.
    """
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
    """A name for the fabric of this process alone."""
    return f"run-{os.getpid()}"

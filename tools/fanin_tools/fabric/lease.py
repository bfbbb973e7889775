"""Lease of a fabric for the time of one command. The last leaseholder takes the fabric down."""

import contextlib
import os
from collections.abc import Iterator

from fanin_tools.fabric import lifecycle
from fanin_tools.fabric.description import Fabric, summary
from fanin_tools.fabric.generate import Plan
from fanin_tools.fabric.lease_guard import guarded
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.fabric.processes import ProcessIdentity
from fanin_tools.progress import ProgressCallback


@contextlib.contextmanager
def leased(wanted: Fabric | Plan, progress: ProgressCallback) -> Iterator[Running]:
    """Lease the fabric `wanted` for the time of the block; bring it up if necessary.

    At the end the fabric is taken down, unless `fanin fabric up` brought it up or other commands lease it. A guard does
    so if this process is killed.
    """
    leaseholder = ProcessIdentity.of(os.getpid())
    lifecycle.clean_up(progress)
    with guarded(wanted.name, leaseholder):
        running = lifecycle.up(wanted, progress, leaseholder=leaseholder)
        is_interrupted = False
        try:
            if running.fresh:
                progress(f"fabric {wanted.name} is up for this command: {summary(running.fabric)}")
            yield running
        except (KeyboardInterrupt, SystemExit):
            is_interrupted = True
            raise
        finally:
            if lifecycle.release(wanted.name, leaseholder) and is_interrupted:
                progress(f"fabric {wanted.name} has been taken down")


def private_name() -> str:
    """A name for the fabric of this process alone."""
    return f"run-{os.getpid()}"

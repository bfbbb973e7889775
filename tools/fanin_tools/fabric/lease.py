"""A fabric for the time of one command: used if it is up, else brought up, and taken down by the last of its users."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from fanin_tools.fabric import lifecycle
from fanin_tools.fabric.daemons import Say
from fanin_tools.fabric.description import Fabric, summary
from fanin_tools.fabric.generate import Plan
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.fabric.processes import ProcessIdentity


@contextlib.contextmanager
def borrowed(wanted: Fabric | Plan, say: Say) -> Iterator[Running]:
    """`wanted`, up. Left up afterwards if it was brought up to stay, or others use it."""
    user = ProcessIdentity.of(os.getpid())
    lifecycle.clean_up(say)
    running = lifecycle.up(wanted, say, user=user)
    try:
        if running.fresh:
            say(f"fabric {wanted.name} is up for this command: {summary(running.fabric)}")
        yield running
    finally:
        lifecycle.give_back(wanted.name, user)


def own_name() -> str:
    """Of a fabric for this process alone: commands that run at the same time do not meet."""
    return f"run-{os.getpid()}"

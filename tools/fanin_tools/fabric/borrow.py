"""A fabric for the time of one command: used if it is up, else brought up and taken down again."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from fanin_tools.fabric import lifecycle, state
from fanin_tools.fabric.description import Fabric, summary
from fanin_tools.fabric.devices import Say
from fanin_tools.fabric.generate import Plan
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.fabric.processes import ProcessIdentity
from fanin_tools.fabric.state import FabricState


@contextlib.contextmanager
def borrowed(wanted: Fabric | Plan, say: Say) -> Iterator[Running]:
    """`wanted`, up. Left up afterwards only if it was up before."""
    clean_up(say)
    running = lifecycle.up(wanted, say)
    if running.fresh:
        running.state.lend(ProcessIdentity.of(os.getpid()))
        say(f"fabric {wanted.name} is up for this command: {summary(running.fabric)}")
    try:
        yield running
    finally:
        if running.fresh:
            lifecycle.down(wanted.name)


def clean_up(say: Say) -> None:
    """Take down what commands have left behind that were killed."""
    for name in state.names():
        owner = FabricState(name).owner
        if owner is not None and not owner.alive:
            say(f"fabric {name}: cleaning up after process {owner.pid}, which was killed")
            lifecycle.down(name)


def own_name() -> str:
    """Of a fabric for this process alone: commands that run at the same time do not meet."""
    return f"run-{os.getpid()}"

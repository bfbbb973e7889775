"""A fabric for the time of one command: used if it is up, else brought up and taken down again."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from fanin_tools.fabric import lifecycle
from fanin_tools.fabric.description import Fabric, summary
from fanin_tools.fabric.devices import Say
from fanin_tools.fabric.generate import Plan
from fanin_tools.fabric.lifecycle import Running


@contextlib.contextmanager
def borrowed(wanted: Fabric | Plan, say: Say) -> Iterator[Running]:
    """`wanted`, up. Left up afterwards only if it was up before."""
    running = lifecycle.up(wanted, say)
    if running.fresh:
        say(f"fabric {wanted.name} is up for this command: {summary(running.fabric)}")
    try:
        yield running
    finally:
        if running.fresh:
            lifecycle.down(wanted.name)

"""A fabric for the time of one command: used if it is up, else brought up and taken down again."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from fanin_tools.fabric import lifecycle
from fanin_tools.fabric.description import Fabric
from fanin_tools.fabric.devices import Say
from fanin_tools.fabric.lifecycle import Running


@contextlib.contextmanager
def borrowed(fabric: Fabric, say: Say) -> Iterator[Running]:
    """`fabric`, up. Left up afterwards only if it was up before."""
    running = lifecycle.up(fabric, say)
    if running.fresh:
        switch = f"and switch {fabric.switch.address}" if fabric.switch else "on direct links"
        say(f"fabric {fabric.name} is up for this command: {len(fabric.nics)} NICs {switch}")
    try:
        yield running
    finally:
        if running.fresh:
            lifecycle.down(fabric.name)

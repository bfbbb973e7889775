"""The kinds of faults that rounds choose from."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from fanin_tools.fabric.lifecycle import Running
from fanin_tools.stress.faults.link_faults import link_down, loss
from fanin_tools.stress.faults.process_faults import frozen_device, kill_device

NODES = 3
DETECTION_SECONDS = 1.0
BRIEF = DETECTION_SECONDS / 5
LOSSES = (10, 50, 200)  # per mille

Inflict = Callable[[Running, random.Random], contextlib.AbstractContextManager[str | None]]


@dataclass(frozen=True)
class Kind:
    """A fault. inflict_on: for the time of a block, which gives the name of the device that it kills; None: to a rank,
    which is killed or else stopped for a while.

    kills: it ends a process; is_fatal: ranks may be told that a member is lost; else all must have right results
    """

    name: str
    inflict_on: Inflict | None = None
    is_of_link: bool = False
    loses: bool = False
    kills: bool = False
    is_long: bool = False

    @property
    def is_fatal(self) -> bool:
        """Whether a member is lost by it."""
        return self.kills or self.is_long

    def inflict(self, running: Running, chance: random.Random) -> contextlib.AbstractContextManager[str | None]:
        """Let it happen to a device or a link for the time of the block; gives the name of the device that it kills."""
        assert self.inflict_on is not None
        return self.inflict_on(running, chance)


def is_of_rank(kind: Kind) -> bool:
    """Whether it happens to a rank."""
    return kind.inflict_on is None


@contextlib.contextmanager
def _killed(running: Running, device: str) -> Iterator[str]:
    kill_device(running, device)
    yield device


@contextlib.contextmanager
def _frozen_for_long(running: Running, device: str) -> Iterator[None]:
    with frozen_device(running, device):
        time.sleep(3 * DETECTION_SECONDS)
        yield


def _nic(chance: random.Random) -> str:
    return f"nic{chance.randrange(NODES)}"


KINDS = (
    Kind("NIC killed", lambda running, chance: _killed(running, _nic(chance)), kills=True),
    Kind("switch killed", lambda running, chance: _killed(running, "switch"), kills=True),
    Kind("NIC stopped briefly", lambda running, chance: frozen_device(running, _nic(chance))),
    Kind("switch stopped briefly", lambda running, chance: frozen_device(running, "switch")),
    Kind("NIC stopped for long", lambda running, chance: _frozen_for_long(running, _nic(chance)), is_long=True),
    Kind("rank killed", kills=True),
    Kind("rank stopped"),
    Kind(
        "packets lost", lambda running, chance: loss(running.fabric, chance.choice(LOSSES)), is_of_link=True, loses=True
    ),
    Kind("link down briefly", lambda running, chance: link_down(running.fabric, _nic(chance)), is_of_link=True),
)

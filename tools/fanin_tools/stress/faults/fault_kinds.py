"""The kinds of faults for rounds of real faults."""

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

from fanin_tools.fabric.lifecycle import Running
from fanin_tools.stress.faults.link_faults import link_down, loss
from fanin_tools.stress.faults.process_faults import frozen_device, kill_device

NODES = 3
DETECTION_SECONDS = 1.0
BRIEF_SECONDS = DETECTION_SECONDS / 5
LOSSES = (10, 50, 200)  # per mille

Inject = Callable[[Running, Random], contextlib.AbstractContextManager[str | None]]


@dataclass(frozen=True)
class FaultKind:
    """A kind of fault.

    inject_on: injects it into a device or a link for the time of a block, whose value is the device that it kills, or
    None; None for faults of ranks. is_of_link: happens to a link. loses: loses packets. kills: ends a process. is_long:
    lasts longer than the detection time.
    """

    name: str
    inject_on: Inject | None = None
    is_of_link: bool = False
    loses: bool = False
    kills: bool = False
    is_long: bool = False

    @property
    def is_fatal(self) -> bool:
        """Whether members may be lost. After other faults all results must be right."""
        return self.kills or self.is_long

    def inject(self, running: Running, random: Random) -> contextlib.AbstractContextManager[str | None]:
        """Into a device or a link for the time of the block, whose value is the device that it kills."""
        assert self.inject_on is not None
        return self.inject_on(running, random)


def is_of_rank(kind: FaultKind) -> bool:
    """A rank is killed or stopped."""
    return kind.inject_on is None


@contextlib.contextmanager
def _killed(running: Running, device: str) -> Iterator[str]:
    kill_device(running, device)
    yield device


@contextlib.contextmanager
def _frozen_for_long(running: Running, device: str) -> Iterator[None]:
    with frozen_device(running, device):
        time.sleep(3 * DETECTION_SECONDS)
        yield


def _nic(random: Random) -> str:
    return f"nic{random.randrange(NODES)}"


KINDS = (
    FaultKind("NIC killed", lambda running, random: _killed(running, _nic(random)), kills=True),
    FaultKind("switch killed", lambda running, random: _killed(running, "switch"), kills=True),
    FaultKind("NIC stopped briefly", lambda running, random: frozen_device(running, _nic(random))),
    FaultKind("switch stopped briefly", lambda running, random: frozen_device(running, "switch")),
    FaultKind("NIC stopped for long", lambda running, random: _frozen_for_long(running, _nic(random)), is_long=True),
    FaultKind("rank killed", kills=True),
    FaultKind("rank stopped"),
    FaultKind(
        "packets lost", lambda running, random: loss(running.fabric, random.choice(LOSSES)), is_of_link=True, loses=True
    ),
    FaultKind("link down briefly", lambda running, random: link_down(running.fabric, _nic(random)), is_of_link=True),
)

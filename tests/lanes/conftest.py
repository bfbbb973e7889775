"""Splitters for the tests of this folder."""

import contextlib
import os
from collections.abc import Callable, Iterator

import pytest

from fanin_nic.port.sockets import open_udp_ports
from tests.lanes.rig import Rig
from tests.lanes.stepped_lanes import LANES, SteppedLanes


@pytest.fixture
def make_rig() -> Iterator[Callable[..., Rig]]:
    """A function that makes rigs, closed after the test."""
    rigs: list[Rig] = []

    def make(*arguments) -> Rig:
        rigs.append(Rig(*arguments))
        return rigs[-1]

    yield make
    for rig in rigs:
        rig.close()


@pytest.fixture
def free_address() -> str:
    high, low = divmod(os.getpid(), 250)
    return f"127.{200 + high % 50}.{low}.1"


@pytest.fixture
def lanes(free_address: str) -> Iterator[SteppedLanes]:
    """Lanes with one client, run by the test."""
    with contextlib.closing(SteppedLanes(open_udp_ports(free_address, 9000, LANES))) as standing:
        yield standing

"""Splitters for the tests of this folder."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import pytest

from fanin_nic.port.sockets import open_ports
from fanin_tools.fabric.generate import free_loopback_prefix
from tests.lanes.rig import Rig
from tests.lanes.standing import LANES, StandingLanes


@pytest.fixture
def make_rig() -> Iterator[Callable[..., Rig]]:
    """Function: a rig with these arguments, closed after the test."""
    rigs: list[Rig] = []

    def make(*arguments) -> Rig:
        rigs.append(Rig(*arguments))
        return rigs[-1]

    yield make
    for rig in rigs:
        rig.close()


@pytest.fixture
def free_address() -> str:
    """An address at which no device is."""
    return f"{free_loopback_prefix()}.1"


@pytest.fixture
def lanes(free_address: str) -> Iterator[StandingLanes]:
    """Lanes with one client, which run when the test says so."""
    with contextlib.closing(StandingLanes(open_ports(free_address, 9000, LANES))) as standing:
        yield standing

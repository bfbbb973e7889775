"""Splitters for the tests of this folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from fanin_tools.fabric.generate import free_loopback_prefix
from tests.lanes.rig import Rig


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

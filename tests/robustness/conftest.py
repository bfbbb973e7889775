"""Real devices for hostile input: a fabric of two NICs below a switch, in its own state folder."""

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from fanin_tools.fabric import device_query, lifecycle
from fanin_tools.fabric.generate import Plan, Shape
from fanin_tools.fabric.lifecycle import Running
from tests.fabric.fixtures import ignore, own_state_folder

NODES, RANKS = 2, 4


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    """The fabric; at the end of the file all its devices must still live."""
    with pytest.MonkeyPatch.context() as patch, own_state_folder(patch):
        brought_up = lifecycle.up(Plan(f"h{secrets.token_hex(3)}", Shape(NODES, RANKS)), ignore)
        yield brought_up
        for device in brought_up.fabric.devices:
            assert device_query.query_status(brought_up.state.socket(device.name))["name"] == device.name


@pytest.fixture
def nic(running: Running) -> Path:
    return running.state.socket(running.fabric.nics[0].name)


@pytest.fixture
def switch(running: Running) -> Path:
    return running.state.socket(running.fabric.switches[0].name)

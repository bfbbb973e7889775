"""The process that devices are forked from: what it leaves behind when something goes wrong on the way."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from fanin_tools.errors import ToolError
from fanin_tools.fabric import devices, lifecycle, nursery
from fanin_tools.fabric.description import Fabric
from fanin_tools.fabric.processes import ProcessIdentity, wait_until_gone
from fanin_tools.fabric.state import FabricState
from tests.fabric.fixtures import ignore

BOUND_S = 120.0  # to load the device code, on a busy machine


def test_devices_that_nobody_has_written_down_never_begin(fabric: Fabric) -> None:
    """The caller dies before it lets them: they end, without a port or a socket."""
    state = FabricState(fabric.name)
    state.create(fabric)
    command = [sys.executable, "-m", nursery.MODULE, fabric.name]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as loader:
        assert loader.stdout is not None
        assert loader.stdin is not None
        waiting = [ProcessIdentity.of(int(line.split()[1])) for line in loader.stdout]
        assert [process.alive for process in waiting] == [True] * len(fabric.devices)
        loader.stdin.close()
    assert loader.returncode == 0
    assert wait_until_gone(waiting, BOUND_S) == []
    assert not any(state.socket(device.name).exists() for device in fabric.devices)


def test_code_that_can_not_be_loaded_is_reported_with_what_it_said(
    fabric: Fabric, state_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices.nursery, "MODULE", "fanin_tools.fabric.nowhere")
    with pytest.raises(ToolError, match=r"COMPILATION_FAILED: .*No module named fanin_tools\.fabric\.nowhere"):
        lifecycle.up(fabric, ignore)
    assert list(state_root.iterdir()) == []


def test_device_that_can_not_start_is_named_with_its_last_words(fabric: Fabric, state_root: Path) -> None:
    switch = fabric.switches[0]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind((switch.address, 4791))
        with pytest.raises(ToolError, match=rf"DEVICE_LOST: device switch ended while starting; .*{switch.address}"):
            lifecycle.up(fabric, ignore)
    assert list(state_root.iterdir()) == []

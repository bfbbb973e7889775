"""Fabrics in a state folder of the test's own, always taken down."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fanin_tools.fabric import lifecycle, loopback, state
from fanin_tools.fabric.description import Device, Fabric
from fanin_tools.fabric.generate import Plan, Shape
from fanin_tools.fabric.lifecycle import Running

STANDIN = Path(__file__).with_name("standin.py")
Up = Callable[[Fabric | Plan], Running]


def standin_command(device: Device, fabric: Fabric, socket: Path) -> list[str]:
    options = ["--name", device.name, "--address", device.address, "--socket", str(socket)]
    return [sys.executable, str(STANDIN), *options]


def ignore(text: str) -> None:
    """Progress that no test looks at."""


@pytest.fixture
def state_root(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A short path: pytest's own temporary folders are too long for UNIX sockets."""
    folder = Path(tempfile.mkdtemp(prefix="fanin-test-", dir="/tmp"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    yield folder / "fanin"
    for name in state.names():
        lifecycle.down(name)
    shutil.rmtree(folder)


@pytest.fixture
def up(state_root: Path) -> Up:
    """Bring a fabric of stand-ins up."""
    return lambda fabric: lifecycle.up(fabric, ignore, standin_command)


@pytest.fixture
def fabric(state_root: Path) -> Iterator[Fabric]:
    """Two NICs and a switch on loopback."""
    with loopback.reserved(Plan("pair", Shape(nodes=2))) as fabric:
        yield fabric

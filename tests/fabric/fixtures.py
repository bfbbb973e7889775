"""Fabrics in a state folder of the test's own, always taken down."""

import contextlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fanin_tools.fabric import lifecycle, namespaces, state
from fanin_tools.fabric.description import Fabric
from fanin_tools.fabric.generate import Plan, Shape
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.fabric.processes import ProcessIdentity
from fanin_tools.fabric.state import FabricState
from fanin_tools.progress import ProgressCallback
from tests.e2e.fabrics import Bench

FAKE_DEVICE = Path(__file__).with_name("fake_device.py")
Up = Callable[[Fabric | Plan], Running]


def fake_devices(
    fabric: Fabric, folder: FabricState, progress: ProgressCallback
) -> Iterator[tuple[str, ProcessIdentity]]:
    """In the place of devices.start."""
    for device in fabric.daemons:
        options = ["--name", device.name, "--address", device.address, "--socket", str(folder.socket(device.name))]
        command = [*namespaces.prefix_command(fabric, device.host), sys.executable, str(FAKE_DEVICE), *options]
        with folder.log(device.name).open("w") as log:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, process_group=0)
        yield device.name, ProcessIdentity.of(process.pid)


def ignore(text: str) -> None:
    """Progress that no test looks at."""


@contextlib.contextmanager
def own_state_folder(patch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where fabrics keep their state meanwhile; at the end all that have any are taken down.

    A short path: pytest's own temporary folders are too long for UNIX sockets.
    """
    folder = Path(tempfile.mkdtemp(prefix="fanin-test-", dir="/tmp"))
    patch.setenv("XDG_RUNTIME_DIR", str(folder))
    try:
        yield folder / "fanin"
    finally:
        for name in state.names():
            lifecycle.down(name)
        shutil.rmtree(folder)


@pytest.fixture(scope="module")
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    """Brings fabrics of real devices up, named after the file of tests. They live until its last test."""
    *_, folder, file = request.module.__name__.split(".")
    with pytest.MonkeyPatch.context() as patch, own_state_folder(patch):
        yield Bench(folder[0] + file.removeprefix("test_").replace("_", "")[:8])


@pytest.fixture
def state_root(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of the state of a test's fabrics."""
    with own_state_folder(monkeypatch) as folder:
        yield folder


@pytest.fixture
def up(state_root: Path) -> Up:
    """Bring a fabric of stand-ins up."""
    return lambda fabric: lifecycle.up(fabric, ignore, fake_devices)


@pytest.fixture
def fabric(state_root: Path) -> Iterator[Fabric]:
    """Two NICs and a switch on loopback."""
    with namespaces.reserved_addresses(Plan("pair", Shape(nodes=2))) as fabric:
        yield fabric

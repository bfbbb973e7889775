"""A fabric in namespaces whose devices have RAW_PACKET queue pairs, of the verbs devices of `device.c`."""

from __future__ import annotations

import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest
from msgspec.structs import replace

from fanin_nic.port.verbs import library
from fanin_tools.errors import ToolError
from fanin_tools.fabric import namespaces
from fanin_tools.fabric.description import Device, Fabric
from fanin_tools.fabric.generate import Shape
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.stress.faults.link_faults import cut_super_packets
from fanin_wire.settings import RAW_SUFFIX, VERBS_PREFIX
from tests.e2e.fabrics import Bench
from tests.fabric.fixtures import own_state_folder

HEADER = Path("/usr/include/infiniband/verbs.h")
SOURCE = Path(__file__).with_name("device.c")
NICS, RANKS = 3, 2
OVER_SOCKETS = "nic2"  # has no queue pair: the packets are the same

Result = TypeVar("Result")


@pytest.fixture(scope="session")
def verbs_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`device.c` in the place of libibverbs."""
    if not HEADER.exists() or shutil.which("cc") is None:
        pytest.skip(f"{HEADER} (Debian: libibverbs-dev), or a C compiler")
    built = tmp_path_factory.mktemp("verbs") / library.NAME
    subprocess.run(["cc", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-O1", "-o", built, SOURCE], check=True)
    return built


def over_frames(fabric: Fabric) -> Fabric:
    """The same fabric with the queue pairs of its interfaces, but for one device."""

    def port(device: Device) -> str:
        name = "eth0" if device.kind == "nic" else namespaces.BRIDGE
        return "udp" if device.name == OVER_SOCKETS else f"{VERBS_PREFIX}raw-{name}{RAW_SUFFIX}"

    return replace(fabric, devices=tuple(replace(device, port=port(device)) for device in fabric.devices))


@pytest.fixture(scope="session")
def running(verbs_library: Path) -> Iterator[Running]:
    """NICs below a switch, in namespaces that veth pairs and a bridge connect."""
    try:
        namespaces.require()
    except ToolError as error:
        pytest.skip(error.cause)
    with pytest.MonkeyPatch.context() as patch, own_state_folder(patch):
        patch.setenv("LD_LIBRARY_PATH", str(verbs_library.parent))
        bench = Bench("raw")
        running = bench.build(over_frames(bench.describe(Shape(NICS, RANKS, netns=True, lanes=1))))
        cut_super_packets(running.fabric)  # a packet socket sees those of UDP sockets before they are cut
        yield running


def in_namespace(name: str, act: Callable[[], Result]) -> Result:
    """Call `act` in a namespace. Its sockets and threads stay there."""
    outcome: list[Result] = []
    failure: list[BaseException] = []

    def run() -> None:
        try:
            namespaces.enter(name)
            outcome.append(act())
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
    return outcome[0]

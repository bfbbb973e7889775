"""A fabric in namespaces whose devices have RAW_PACKET queue pairs, of the verbs devices of `device.c`."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fanin_tools.errors import ToolError
from fanin_tools.fabric import namespaces
from fanin_tools.fabric.generate import Shape
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.stress.faults.fault_kinds import cut_super_packets
from tests.e2e.fabrics import Bench
from tests.fabric.fixtures import own_state_folder
from tests.raw_packet.rig import NoLibrary, build_library, over_frames

NICS, RANKS = 3, 2
OVER_SOCKETS = "nic2"  # has no queue pair: the packets are the same


@pytest.fixture(scope="package")
def verbs_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`device.c` in the place of libibverbs."""
    try:
        return build_library(tmp_path_factory.mktemp("verbs"))
    except NoLibrary as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="package")
def running(verbs_library: Path) -> Iterator[Running]:
    """NICs below a switch, in namespaces that veth pairs and a bridge connect."""
    try:
        namespaces.require()
    except ToolError as error:
        pytest.skip(error.cause)
    with pytest.MonkeyPatch.context() as patch, own_state_folder(patch):
        patch.setenv("LD_LIBRARY_PATH", str(verbs_library.parent))
        bench = Bench("raw")
        described = bench.describe(Shape(NICS, RANKS, netns=True, lanes=1))
        running = bench.build(over_frames(described, [OVER_SOCKETS]))
        cut_super_packets(running.fabric)  # a packet socket sees those of UDP sockets before they are cut
        yield running

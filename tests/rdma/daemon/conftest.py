"""A fabric of one NIC, with a guest beside it, for all tests of this folder; connections of the two."""

import shutil
from collections.abc import Callable, Iterator

import pytest

from fanin_tools.errors import ToolError
from fanin_tools.fabric import namespaces
from fanin_tools.fabric.generate import Shape
from fanin_tools.fabric.lifecycle import Running
from fanin_wire.rocev2 import Transport as Service
from tests.e2e.fabrics import Bench
from tests.fabric.fixtures import own_state_folder
from tests.raw_packet.rig import NoLibrary, build_library, over_frames
from tests.rdma.cases import ALL
from tests.rdma.ends import Rxe
from tests.rdma.machine.image import Image

from .network import LOSSLESS, Daemons, NoTap, guest_beside
from .nic import Nic

MTU = 9000  # so that a path MTU of 4096 fits


def over_sockets(_: pytest.TempPathFactory) -> Running:
    return Bench("rxe").up(Shape(1, 1, netns=True, mtu=MTU))


def over_queue_pairs(folders: pytest.TempPathFactory) -> Running:
    """A NIC with a RAW_PACKET queue pair of `tests/raw_packet`. Raises NoLibrary."""
    bench = Bench("rxe")
    with pytest.MonkeyPatch.context() as patch:  # for the devices only: programs on the NIC have libibverbs itself
        patch.setenv("LD_LIBRARY_PATH", str(build_library(folders.mktemp("verbs")).parent))
        return bench.build(over_frames(bench.describe(Shape(1, 1, netns=True, mtu=MTU, lanes=1))))


PORTS = {"sockets": over_sockets, "frames": over_queue_pairs}


@pytest.fixture(scope="package", params=PORTS if ALL else ["sockets"])
def network(
    request: pytest.FixtureRequest, guest_image: Image, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Daemons]:
    """The guest and the NIC. The bridge of the switch, which computes nothing here, connects them."""
    try:
        namespaces.require()
    except ToolError as error:
        pytest.skip(error.cause)
    if shutil.which("nft") is None:
        pytest.skip("the program `nft` (nftables), to lose packets in the kernel")
    with pytest.MonkeyPatch.context() as patch, own_state_folder(patch):
        try:
            fabric = PORTS[request.param](tmp_path_factory)
            with guest_beside(fabric, guest_image) as both:
                yield both
        except (NoTap, NoLibrary) as missing:
            pytest.skip(str(missing))


@pytest.fixture
def wire(network: Daemons) -> Iterator[Daemons]:
    """In place of the wire of frames."""
    yield network
    network.faults = LOSSLESS


@pytest.fixture
def connect(network: Daemons) -> Iterator[Callable[..., tuple[Nic, Rxe]]]:
    """Makes an end at the NIC and one at rxe with connected queue pairs. Attributes by name, for both."""
    made: list[Nic | Rxe] = []

    def make(service: Service = Service.RC, **attributes: int) -> tuple[Nic, Rxe]:
        nic, rxe = Nic(network), Rxe(network)
        made.extend((nic, rxe))
        for end in (nic, rxe):
            end.create(service)
        for end, peer in ((nic, rxe), (rxe, nic)):
            end.bring_up(None if service == Service.UD else peer, **attributes)
        return nic, rxe

    yield make
    for end in made:
        end.close()

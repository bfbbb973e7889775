"""A fabric of one NIC, with a guest beside it, for all tests of this folder; connections of the two."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator

import pytest

from fanin_tools.errors import ToolError
from fanin_tools.fabric import namespaces
from fanin_tools.fabric.generate import Shape
from fanin_wire.rocev2 import Transport as Service
from tests.e2e.fabrics import Bench
from tests.fabric.fixtures import own_state_folder
from tests.rdma.ends import Rxe
from tests.rdma.machine.image import Image

from .network import LOSSLESS, Daemons, NoTap, guest_beside
from .nic import Nic

MTU = 9000  # so that a path MTU of 4096 fits


@pytest.fixture(scope="package")
def network(guest_image: Image) -> Iterator[Daemons]:
    """The guest and the NIC. The switch computes nothing here: its bridge connects them."""
    try:
        namespaces.require()
    except ToolError as error:
        pytest.skip(error.cause)
    if shutil.which("nft") is None:
        pytest.skip("the program `nft` (nftables), to lose packets in the kernel")
    with pytest.MonkeyPatch.context() as patch, own_state_folder(patch):
        fabric = Bench("rxe").up(Shape(1, 1, netns=True, mtu=MTU))
        try:
            with guest_beside(fabric, guest_image) as both:
                yield both
        except NoTap as missing:
            pytest.skip(str(missing))


@pytest.fixture
def wire(network: Daemons) -> Iterator[Daemons]:
    """In the place of the wire of frames."""
    yield network
    network.faults = LOSSLESS


@pytest.fixture
def connect(network: Daemons) -> Iterator[Callable[..., tuple[Nic, Rxe]]]:
    """Makes an end at the NIC and one at rxe with a queue pair each, connected. Attributes by name, for both."""
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

"""One guest for all tests. A test that breaks it does not break those behind it: they get a new one."""

from __future__ import annotations

import contextlib
import os
import zlib
from collections.abc import Callable, Iterator

import pytest

from fanin_wire.rocev2 import Transport as Service

from .ends import Fanin, Rxe
from .machine.guest import Guest, running
from .machine.image import Image, image
from .machine.packages import PackagesMissing
from .wire import Wire


@pytest.fixture(scope="session")
def guest_image() -> Image:
    """What guests are started from."""
    try:
        return image()
    except PackagesMissing as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def guests(guest_image: Image) -> Iterator[Callable[[], Guest]]:
    """Gives the guest; a new one if the last one has been broken."""
    with contextlib.ExitStack() as stack:
        last: list[Guest] = []

        def current() -> Guest:
            if not (last and last[0].is_whole):
                stack.close()
                last[:] = [stack.enter_context(running(guest_image))]
            return last[0]

        yield current


@pytest.fixture
def guest(guests: Callable[[], Guest]) -> Guest:
    """A running guest with rxe."""
    return guests()


@pytest.fixture
def wire(guest: Guest, request: pytest.FixtureRequest) -> Wire:
    """The guest's network, with nothing on it. The faults come from a seed, which is printed."""
    seed = int(os.environ.get("FANIN_TEST_RDMA_SEED", zlib.crc32(request.node.name.encode())))
    print(f"FANIN_TEST_RDMA_SEED={seed}")
    return Wire(guest, seed)


@pytest.fixture
def connect(wire: Wire) -> Iterator[Callable[..., tuple[Fanin, Rxe]]]:
    """Makes a Fanin end and an rxe end with a queue pair each, connected. Attributes by name, for both."""
    made: list[Rxe] = []

    def make(service: Service = Service.RC, **attributes: int) -> tuple[Fanin, Rxe]:
        fanin, rxe = Fanin(wire), Rxe(wire)
        made.append(rxe)
        for end in (fanin, rxe):
            end.create(service)
        for end, peer in ((fanin, rxe), (rxe, fanin)):
            end.bring_up(None if service == Service.UD else peer, **attributes)
        return fanin, rxe

    yield make
    for rxe in made:
        if rxe.guest.is_whole:
            rxe.close()

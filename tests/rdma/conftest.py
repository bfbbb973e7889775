"""One guest for all tests. After a test that breaks it, later tests get a new one."""

import contextlib
import os
import zlib
from collections.abc import Callable, Iterator

import pytest

from fanin_wire.rocev2 import Transport as Service

from .cases import ALL
from .ends import Fanin, Rxe
from .machine import programs
from .machine.guest import Guest, running
from .machine.image import Image, image
from .machine.packages import PackagesMissing
from .wire import Wire

TC = "/usr/sbin/tc"
# Minutes of an emulated processor. tests/e2e/test_rdma_host.py and test_verbs_port.py have the same over the verbs
# library of Fanin.
collect_ignore = [] if ALL else ["test_host_over_rxe.py", "test_fabric_over_rxe.py"]


@pytest.fixture(scope="session")
def guest_image() -> Image:
    """The image of guests."""
    try:
        return image()
    except PackagesMissing as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def guests(guest_image: Image) -> Iterator[Callable[[], Guest]]:
    """Gives the guest; a new one if the last one is broken."""
    with contextlib.ExitStack() as stack:
        last: list[Guest] = []

        def current() -> Guest:
            if not (last and last[0].is_whole):
                stack.close()
                last[:] = [stack.enter_context(running(guest_image))]
            return last[0]

        yield current


@pytest.fixture(scope="session")
def environment() -> dict[str, str]:
    """The environment of programs in a guest with the files of this machine."""
    try:
        return programs.prepare()
    except PackagesMissing as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="package")
def linked(guest_image: Image, environment: dict[str, str]) -> Iterator[Guest]:
    """A guest with the files of this machine and a link with an rxe device at each end (guest/link.sh), without loss:
    `lossy` changes that."""
    with running(guest_image, with_files=True) as machine:
        programs.install_verbs(machine)
        machine.call("run", command=["busybox", "sh", "/link.sh"])
        yield machine


@contextlib.contextmanager
def lossy(machine: Guest, loss: str) -> Iterator[None]:
    """Both ends of the link lose this share of the packets ("2%"); "": none."""
    if loss:
        for end in ("v0", "v1"):
            machine.call("run", command=[TC, "qdisc", "add", "dev", end, "root", "netem", "loss", loss])
    try:
        yield
    finally:
        for end in ("v0", "v1") if loss else ():
            machine.call("run", command=[TC, "qdisc", "del", "dev", end, "root"])


@pytest.fixture
def guest(guests: Callable[[], Guest]) -> Guest:
    return guests()


@pytest.fixture
def wire(guest: Guest, request: pytest.FixtureRequest) -> Wire:
    """The guest's idle network. The faults come from a seed, which is printed."""
    seed = int(os.environ.get("FANIN_TEST_RDMA_SEED", zlib.crc32(request.node.name.encode())))
    print(f"FANIN_TEST_RDMA_SEED={seed}")
    return Wire(guest, seed)


@pytest.fixture
def connect(wire: Wire) -> Iterator[Callable[..., tuple[Fanin, Rxe]]]:
    """Makes a Fanin end and an rxe end with connected queue pairs. Attributes by name, for both."""
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

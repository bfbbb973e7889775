"""Devices that exchange their packets over UD queue pairs of verbs devices: the same results, the same refusals.

The verbs devices are NICs of another fabric, by the preloaded verbs library. `tests/rdma` does the same over rxe.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from msgspec.structs import replace

from fanin.verbs_lib import library_path
from fanin_tools.fabric.description import Fabric
from fanin_tools.fabric.generate import Shape
from fanin_tools.fabric.lifecycle import Running
from tests.e2e.fabrics import BOUND_S, Bench, assert_released, statuses
from tests.e2e.members import job, run_ranks

NODES = 2
ELEMENTS = 70_001


def over_verbs(bench: Bench, shape: Shape, carriers: Running) -> Fabric:
    """A fabric each of whose devices has the queue pairs, and the address, of one of the carriers."""
    fabric = bench.describe(shape)
    addresses = [nic.address for nic in carriers.fabric.nics]
    assert len(addresses) >= len(fabric.devices)
    devices = [
        replace(device, address=address, port=f"verbs://fanin{number}")
        for number, (device, address) in enumerate(zip(fabric.devices, addresses, strict=False))
    ]
    return replace(fabric, devices=tuple(devices))


@pytest.fixture(scope="module")
def carriers(bench: Bench) -> Running:
    """NICs that serve as verbs devices: fanin0, fanin1, ..."""
    return bench.up(Shape(NODES + 1, 1, direct=True, lanes=1))


@pytest.fixture(scope="module")
def on_carriers(carriers: Running) -> Iterator[pytest.MonkeyPatch]:
    """Devices that are started find the carriers."""
    sockets = ":".join(str(carriers.state.socket(nic.name)) for nic in carriers.fabric.nics)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FANIN_SOCKET", sockets)
        patch.setenv("LD_PRELOAD", str(library_path()))
        yield patch


@pytest.fixture(scope="module")
def running(bench: Bench, carriers: Running, on_carriers: pytest.MonkeyPatch) -> Running:
    """Two NICs below a switch, over verbs."""
    return bench.build(over_verbs(bench, Shape(NODES, 2, lanes=1), carriers))


@pytest.mark.parametrize("route", ["tree", "ring"])
def test_allreduce(running: Running, route: str) -> None:
    with job(running, 2 * NODES, route) as members:

        def act(rank: int) -> np.ndarray:
            data = np.arange(ELEMENTS, dtype="i8") * (rank + 1)
            return members[rank].allreduce(data, out=data, timeout=BOUND_S)

        expected = np.arange(ELEMENTS, dtype="i8") * (NODES * (2 * NODES + 1))
        for outcome in run_ranks(2 * NODES, act):
            assert np.array_equal(outcome, expected)
    assert_released(running)
    found = statuses(running)
    assert all(status["links"] for status in found.values())

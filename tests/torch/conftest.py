"""Fabrics for the tests of PyTorch. They need torch, which `make torch` installs beside the other packages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fanin_tools.fabric.generate import Shape
from tests.e2e.fabrics import Bench
from tests.fabric.fixtures import own_state_folder


@pytest.fixture(scope="module")
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    """Brings fabrics up that live until the last test of the file."""
    pytest.importorskip("torch", reason="torch, which `make torch` installs")
    prefix = request.module.__name__.rpartition("test_")[2][:8]
    with pytest.MonkeyPatch.context() as patch, own_state_folder(patch):
        yield Bench(f"t{prefix}")


@pytest.fixture(scope="module")
def local(bench: Bench) -> list[str]:
    """The socket of one NIC."""
    running = bench.up(Shape(nodes=1, ranks_per_node=4))
    return [str(running.state.socket(nic.name)) for nic in running.fabric.nics]


@pytest.fixture(scope="module")
def tree(bench: Bench) -> list[str]:
    """The sockets of two NICs below a switch."""
    running = bench.up(Shape(nodes=2, ranks_per_node=4))
    return [str(running.state.socket(nic.name)) for nic in running.fabric.nics]

"""Fabrics of two NICs, and the two sides of a connection through them."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from fanin.verbs.enums import IBV_QPT_RC
from fanin_tools.errors import ToolError
from fanin_tools.fabric import namespaces
from fanin_tools.fabric.generate import Shape
from fanin_tools.fabric.lifecycle import Running
from tests.e2e.fabrics import Bench
from tests.ordinary.sides import Side, connect, sockets

Connected = Callable[..., tuple[Side, Side]]


@pytest.fixture(scope="module", params=["loopback", pytest.param("netns", marks=pytest.mark.netns)])
def running(request: pytest.FixtureRequest, bench: Bench) -> Running:
    """Two NICs: on loopback, and in namespaces with links of 1500 bytes between."""
    if request.param == "netns":
        try:
            namespaces.require()
        except ToolError as error:
            pytest.skip(error.cause)
    return bench.up(Shape(2, 2, netns=request.param == "netns"))


@pytest.fixture
def connected(running: Running) -> Iterator[Connected]:
    """A function that makes two sides with connected queue pairs; members: of the attributes of both."""
    with ExitStack() as opened:

        def make(kind: int = IBV_QPT_RC, **members: Any) -> tuple[Side, Side]:
            pair = [Side(socket, kind) for socket in sockets(running)]
            for side in pair:
                opened.callback(side.close)
            connect(*pair, **members)
            return pair[0], pair[1]

        yield make

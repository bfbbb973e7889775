"""Fabrics of real devices, one for each file of tests, in a state folder of its own and always taken down."""

from collections.abc import Iterator

import pytest

from fanin_tools.errors import ToolError
from fanin_tools.fabric import namespaces
from tests.e2e.fabrics import Bench
from tests.fabric.fixtures import own_state_folder


@pytest.fixture(scope="module")
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    """Brings fabrics up that are named after the file of tests; they live until its last test."""
    prefix = request.module.__name__.rpartition("test_")[2].replace("_", "")[:8]
    with pytest.MonkeyPatch.context() as patch, own_state_folder(patch):
        yield Bench(prefix)


@pytest.fixture(scope="session")
def namespaces_allowed() -> None:
    """Skips where a fabric in namespaces can not be had."""
    try:
        namespaces.require()
    except ToolError as error:
        pytest.skip(error.cause)

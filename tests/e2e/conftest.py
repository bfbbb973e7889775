"""Fabrics of real devices, one for each file of tests, in a state folder of its own and always taken down."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from fanin_tools.errors import ToolError
from fanin_tools.fabric import lifecycle, namespaces
from tests.e2e.fabrics import Bench


@pytest.fixture(scope="module")
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    """Brings fabrics up that are named after the file of tests; they live until its last test."""
    folder = Path(tempfile.mkdtemp(prefix="fanin-e2e-", dir="/tmp"))  # pytest's own are too long for UNIX sockets
    prefix = request.module.__name__.rpartition("test_")[2].replace("_", "")[:8]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", str(folder))
        made = Bench(prefix)
        try:
            yield made
        finally:
            for name in made.names:
                lifecycle.down(name)
            shutil.rmtree(folder)


@pytest.fixture(scope="session")
def namespaces_allowed() -> None:
    """Skips where a fabric in namespaces can not be had."""
    try:
        namespaces.require()
    except ToolError as error:
        pytest.skip(error.cause)

"""Fabrics of real devices, one for each file of tests, in a state folder of its own and always taken down."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from fanin_tools.fabric import lifecycle
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
    if os.geteuid() != 0:
        pytest.skip("root, to make network namespaces")
    for tool in ("ip", "tc", "unshare"):
        if shutil.which(tool) is None:
            pytest.skip(f"the program `{tool}` (iproute2, util-linux)")
    tried = subprocess.run(["unshare", "--net", "true"], capture_output=True, text=True)
    if tried.returncode:
        pytest.skip(f"the right to make network namespaces: {tried.stderr.strip()}")

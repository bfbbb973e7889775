"""A node whose device plugin runs."""

from collections.abc import Iterator

import pytest

from tests.device_plugin.rig import Node, running


@pytest.fixture
def node() -> Iterator[Node]:
    with running() as found:
        yield found

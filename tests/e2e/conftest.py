"""Fabrics of real devices, one for each file of tests, in a state folder of its own and always taken down."""

import pytest

from fanin_tools.errors import ToolError
from fanin_tools.fabric import namespaces


@pytest.fixture(scope="session")
def namespaces_allowed() -> None:
    """Skips where a fabric in namespaces can not be had."""
    try:
        namespaces.require()
    except ToolError as error:
        pytest.skip(error.cause)

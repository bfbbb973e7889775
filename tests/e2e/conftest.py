"""Fabrics of real devices, one for each test file, in a state folder of its own and always taken down."""

import pytest

from fanin_tools.errors import ToolError
from fanin_tools.fabric import namespaces


@pytest.fixture(scope="session")
def namespaces_allowed() -> None:
    """Skips where fabrics in namespaces are impossible."""
    try:
        namespaces.require()
    except ToolError as error:
        pytest.skip(error.cause)

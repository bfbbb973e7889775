"""Options of the tests of the RTL, and the whole switch, which they share."""

import numpy as np
import pytest

from fpga_cosim.tb.target import build
from fpga_cosim.tb.tools import missing
from fpga_cosim.tb.verilated import Module

CHUNK = 4  # of switch_core, by default
SIZES = (256, 1024, 4096)  # bytes


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--vectors", type=int, default=200_000, help="random operands of each arithmetic test")
    parser.addoption("--packets", type=int, default=50_000, help="of the differential test of the whole switch")
    parser.addoption("--long", action="store_true", help="also the tests that compile half a minute more")
    parser.addoption(
        "--chunk", type=int, default=CHUNK, help="a slot of the whole switch holds 2**CHUNK beats of 64 bytes"
    )
    parser.addoption("--seed", type=int, default=20261126, help="of everything random")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "long: only with --long")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--long"):
        config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker("long")])
        items[:] = [item for item in items if not item.get_closest_marker("long")]


def pytest_sessionstart(session: pytest.Session) -> None:
    """A missing tool is an error that names it, not a skip."""
    if lacking := missing():
        lines = "".join(f"\n  {tool}: {remedy}" for tool, remedy in lacking.items())
        pytest.exit(f"fanin: NOT_SUPPORTED: this machine lacks tools of the co-simulation{lines}", returncode=1)


@pytest.fixture
def vectors(request: pytest.FixtureRequest) -> int:
    return request.config.getoption("--vectors")


@pytest.fixture
def packets(request: pytest.FixtureRequest) -> int:
    return request.config.getoption("--packets")


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    return request.config.getoption("--seed")


@pytest.fixture
def generator(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.fixture(scope="session")
def module(request: pytest.FixtureRequest) -> Module:
    chunk = request.config.getoption("--chunk")
    return build(None if chunk == CHUNK else {"CHUNK": chunk})


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Sizes of payloads that fit a slot."""
    if "size" in metafunc.fixturenames:
        largest = 64 << metafunc.config.getoption("--chunk")
        metafunc.parametrize("size", [size for size in SIZES if size <= largest])

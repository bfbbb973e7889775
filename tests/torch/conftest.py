"""Fabrics for the tests of PyTorch, which need torch (`make torch` installs it).

A sample by default; all with FANIN_TEST_TORCH=all (`make torch`).
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from fanin_tools.fabric.generate import Shape
from tests.e2e.fabrics import Bench
from tests.fabric.fixtures import own_state_folder

ALL = os.environ.get("FANIN_TEST_TORCH") == "all"
SAMPLE = (
    "test_collectives_beside_gloo[2-reductions]",
    "test_behaviour[works.coalesced]",
    "test_behaviour[works.waiting_callbacks]",
    "test_behaviour[messages.messages_of_threads]",
    "test_behaviour[tensors.one_element]",
    "test_behaviour[tensors.resized_storage]",
    "test_training[data_parallel]",
    "test_a_rank_that_is_killed",
    "test_training_goes_on_after_a_kill",
)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without FANIN_TEST_TORCH this folder's tests are the sample."""
    folder = Path(__file__).parent
    ours = [item for item in items if item.path.parent == folder and item.path.name != "test_sockets.py"]
    left_out = [item for item in ours if not ALL and item.name not in SAMPLE]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


@pytest.fixture(scope="module")
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    """Fabrics that live until the last test of the file."""
    pytest.importorskip("torch", reason="torch, which `make torch` installs")
    prefix = request.module.__name__.rpartition("test_")[2][:8]
    with pytest.MonkeyPatch.context() as patch, own_state_folder(patch):
        yield Bench(f"t{prefix}")


@pytest.fixture(scope="module")
def local(bench: Bench) -> list[str]:
    running = bench.up(Shape(nodes=1, ranks_per_node=4))
    return [str(running.state.socket(nic.name)) for nic in running.fabric.nics]


@pytest.fixture(scope="module")
def tree(bench: Bench) -> list[str]:
    """The sockets of two NICs below a switch."""
    running = bench.up(Shape(nodes=2, ranks_per_node=4))
    return [str(running.state.socket(nic.name)) for nic in running.fabric.nics]

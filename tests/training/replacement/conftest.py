"""The devices of trainings, and the undisturbed training. The long forms are for `make training` only."""

import os
from collections.abc import Iterator

import pytest

from fanin_tools.fabric.generate import Shape
from fanin_tools.fabric.lifecycle import Running
from tests.e2e.fabrics import Bench
from tests.fabric.fixtures import own_state_folder
from tests.training.replacement.scenes import MEMBERS, SPARES, STEPS, WORKERS, run
from tests.waiting import DETECTION_S

collect_ignore = [] if os.environ.get("FANIN_TEST_TRAINING") == "full" else ["test_recovery_long.py"]


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with pytest.MonkeyPatch.context() as patch, own_state_folder(patch):
        bench = Bench("replace")
        yield bench.up(Shape(MEMBERS, 1, detection=DETECTION_S))


@pytest.fixture(scope="module")
def undisturbed(running: Running, tmp_path_factory: pytest.TempPathFactory) -> dict[int, set[str]]:
    """The losses of a run without failure; all members have the same."""
    scene = run(running, tmp_path_factory.mktemp("undisturbed"), {})
    assert [scene.last(member) for member in range(MEMBERS)] == [
        *(f"done {STEPS} position {place}" for place in range(WORKERS)),
        *["done -1"] * SPARES,
    ]
    assert {step: len(found) for step, found in scene.losses.items()} == dict.fromkeys(range(STEPS), 1)
    return scene.losses

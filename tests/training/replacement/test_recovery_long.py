"""More failures of a training: several at once, a stopped process, lost spares. For `make training`."""

import importlib.util
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from fanin_tools.errors import ToolError
from fanin_tools.fabric import namespaces
from fanin_tools.fabric.lifecycle import Running
from tests.e2e.fabrics import Bench
from tests.fabric.fixtures import own_state_folder
from tests.training.replacement.scenes import IMPATIENT_S, STEPS, WORKERS, run, unequal_links

pytestmark = pytest.mark.process


def test_replacement_that_dies_while_it_loads(
    running: Running, undisturbed: dict[int, set[str]], tmp_path: Path
) -> None:
    """Then the other one has the position."""
    scene = run(running, tmp_path, {1: ["kill=2"], 3: ["kill-loading"]})
    assert scene.losses == undisturbed
    assert scene.last(4) == f"done {STEPS} position 1"
    assert {member: scene.codes[member] for member in (1, 3)} == dict.fromkeys((1, 3), -signal.SIGKILL)


@pytest.mark.parametrize("route", ["ring", "tree"])
def test_two_at_once(running: Running, undisturbed: dict[int, set[str]], tmp_path: Path, route: str) -> None:
    """On another route the sums have other bits."""
    scene = run(running, tmp_path, {1: ["kill=3"], 2: ["kill=3"]}, route, limit=IMPATIENT_S)
    assert route == "tree" or scene.losses == undisturbed
    assert scene.losses.keys() == undisturbed.keys()
    assert {len(found) for found in scene.losses.values()} == {1}
    expected = {f"done {STEPS} position {place}" for place in range(WORKERS)}
    assert {scene.last(member) for member in (0, 3, 4)} == expected


@pytest.mark.parametrize("member", [0, 2])
def test_stopped_for_long(running: Running, undisturbed: dict[int, set[str]], tmp_path: Path, member: int) -> None:
    """It is replaced; when it goes on, it is fenced off, and has changed nothing."""
    scene = run(running, tmp_path, {member: ["stop=3"]}, limit=IMPATIENT_S)
    assert scene.losses == undisturbed
    assert scene.last(member).startswith("Fenced")
    assert f"done {STEPS} position {member}" in {scene.last(spare) for spare in (3, 4)}


def test_more_failures_than_spares(running: Running, undisturbed: dict[int, set[str]], tmp_path: Path) -> None:
    """The ring is rebuilt without the third member, and goes on with two."""
    scene = run(running, tmp_path, {1: ["kill=2"], 3: ["kill=4"], 4: ["kill=6"]})
    assert {step: scene.losses[step] for step in range(6)} == {step: undisturbed[step] for step in range(6)}
    assert [scene.last(member) for member in (0, 2)] == [f"done {STEPS} position 0", f"done {STEPS} position 1"]
    assert {scene.recoveries(0)[-1], scene.recoveries(2)[-1]} == {"lost=4 replacement=None step=6"}


def test_spare_that_is_lost(running: Running, undisturbed: dict[int, set[str]], tmp_path: Path) -> None:
    """The workers notice when they need the other one."""
    scene = run(running, tmp_path, {1: ["kill=5"], 3: ["kill-waiting"]})
    assert scene.losses == undisturbed
    assert scene.last(4) == f"done {STEPS} position 1"


@pytest.fixture
def unequal() -> Iterator[Running]:
    try:
        namespaces.require()
    except ToolError as error:
        pytest.skip(error.cause)
    with pytest.MonkeyPatch.context() as patch, own_state_folder(patch):
        bench = Bench("cut")
        yield bench.build(unequal_links(bench))


@pytest.mark.netns
def test_link_that_is_cut(unequal: Running, tmp_path: Path) -> None:
    """The node behind it lives, and is fenced off. A network of torch, if available."""
    model = "torch" if importlib.util.find_spec("torch") else "linear"
    whole = run(unequal, tmp_path, {}, model=model)
    scene = run(unequal, tmp_path, {1: ["cut=3"]}, model=model, limit=IMPATIENT_S)
    assert scene.losses == whole.losses
    assert scene.last(1).startswith("Fenced")
    assert f"done {STEPS} position 1" in {scene.last(spare) for spare in (3, 4)}

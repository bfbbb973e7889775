"""A worker of a training is killed. The losses equal those without failure, bit by bit (more: make training)."""

import signal
from pathlib import Path

import pytest

from fanin_tools.fabric.lifecycle import Running
from tests.training.replacement.scenes import IMPATIENT_S, SPARES, STEPS, WORKERS, run, set_link

pytestmark = pytest.mark.process
ENDS = [*(f"done {STEPS} position {place}" for place in range(WORKERS)), *["done -1"] * SPARES]  # of all members


def test_killed_in_the_middle_of_a_step(running: Running, undisturbed: dict[int, set[str]], tmp_path: Path) -> None:
    """The spare has the lost position, and the losses are the same."""
    scene = run(running, tmp_path, {1: ["kill=3"]})
    assert scene.codes[1] == -signal.SIGKILL
    assert scene.losses == undisturbed
    assert [scene.last(member) for member in (0, 2)] == [f"done {STEPS} position 0", f"done {STEPS} position 2"]
    assert sorted(scene.last(member) for member in (3, 4)) == ["done -1", f"done {STEPS} position 1"]
    assert {tuple(scene.recoveries(member)) for member in (0, 2, 3, 4)} == {("lost=1 replacement=3 step=3",)}


def test_killed_when_all_is_done(running: Running, undisturbed: dict[int, set[str]], tmp_path: Path) -> None:
    """A spare that has missed the end hears it from the others, which still wait; it takes no position."""
    scene = run(running, tmp_path, {1: ["kill-finished"], 3: ["deaf"]})
    assert scene.codes[1] == -signal.SIGKILL
    assert scene.losses == undisturbed
    assert [scene.last(member) for member in (0, 2, 3, 4)] == [ENDS[member] for member in (0, 2, 3, 4)]


def test_rows_that_come_to_some_only_at_the_end(
    running: Running, undisturbed: dict[int, set[str]], tmp_path: Path
) -> None:
    """Those with the rows wait for the spare that has heard neither of the end nor the rows."""
    scene = run(running, tmp_path, {1: ["kill-finished"], 3: ["deaf", "deaf-rows"]}, limit=IMPATIENT_S)
    assert scene.losses == undisturbed
    assert [scene.last(member) for member in (0, 2, 3, 4)] == [ENDS[member] for member in (0, 2, 3, 4)]


def test_stopped_when_all_is_done(running: Running, undisturbed: dict[int, set[str]], tmp_path: Path) -> None:
    """The others do not wait for it. When it goes on it has ended, too. Another worker leaves a collective behind."""
    scene = run(running, tmp_path, {1: ["stop-finished"], 2: [f"alone={STEPS - 1}"]}, limit=IMPATIENT_S)
    assert scene.losses == undisturbed
    assert [scene.last(member) for member in range(WORKERS + SPARES)] == ENDS


def test_no_link_of_the_machine_is_cut(running: Running) -> None:
    with pytest.raises(ValueError, match="no namespaces"):
        set_link(running, 0, "down")

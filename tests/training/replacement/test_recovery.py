"""Trainings in processes of their own, which are killed and stopped. The losses are those of a run without failure, bit
by bit. `FANIN_TEST_TRAINING=full` (make training) runs all scenes; a sample is in every run."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest

from fanin_tools.fabric.generate import Shape
from fanin_tools.fabric.lifecycle import Running
from tests.e2e.fabrics import Bench, assert_released
from tests.e2e.members import across
from tests.fabric.fixtures import own_state_folder

pytestmark = pytest.mark.process
TRAINEE = Path(__file__).with_name("trainee.py")
ROOT = Path(__file__).parents[3]
WORKERS, SPARES, STEPS = 3, 2, 8
MEMBERS = WORKERS + SPARES
BOUND_S = 120.0
PIPE = subprocess.PIPE
FULL = os.environ.get("FANIN_TEST_TRAINING") == "full"
full = pytest.mark.skipif(not FULL, reason="long form: make training")


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with pytest.MonkeyPatch.context() as patch, own_state_folder(patch):
        bench = Bench("replace")
        yield bench.up(Shape(MEMBERS, 1, detection=1.5))


@dataclass
class Scene:
    """What the members have printed, by their rank in the pool. losses: by step, of all members that had them."""

    outputs: list[str]
    codes: list[int]
    losses: dict[int, set[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for output in self.outputs:
            for step, loss in re.findall(r"loss (\d+) (\S+)", output):
                self.losses.setdefault(int(step), set()).add(loss)

    def last(self, member: int) -> str:
        """What became of a member: its last line but those about recoveries."""
        lines = [line for line in self.outputs[member].splitlines() if not re.match("loss|recovered|seconds", line)]
        return lines[-1] if lines else ""

    def recoveries(self, member: int) -> list[str]:
        """What a member says of its recoveries, but for their time."""
        return re.findall(r"^recovered (.*)$", self.outputs[member], re.MULTILINE)


def run(running: Running, folder: Path, faults: dict[int, list[str]], route: str = "ring") -> Scene:
    """Run a training to its end. A member that stops itself goes on when the others have ended."""
    job, sockets = across(running, range(MEMBERS), route)
    path = folder / "job"
    path.write_text(msgspec.structs.replace(job, reproducible="run", slots=64).to_text())
    processes = []
    for member in range(MEMBERS):
        line = [sys.executable, TRAINEE, path, str(member), sockets[member], str(WORKERS), str(STEPS)]
        line += faults.get(member, [])
        processes.append(subprocess.Popen(line, cwd=ROOT, stdout=PIPE, stderr=PIPE, text=True))
    stopped = [member for member, kinds in faults.items() if any(kind.startswith("stop") for kind in kinds)]
    outputs = [""] * MEMBERS
    try:
        for member in sorted(range(MEMBERS), key=lambda member: member in stopped):
            if member in stopped:
                processes[member].send_signal(signal.SIGCONT)
            outputs[member], errors = processes[member].communicate(timeout=BOUND_S)
            assert "Traceback" not in errors, errors
            print(f"member {member}: {outputs[member].replace(chr(10), '; ')}")
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert_released(running)
    return Scene(outputs, [process.returncode for process in processes])


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


def test_killed_in_the_middle_of_a_step(running: Running, undisturbed: dict[int, set[str]], tmp_path: Path) -> None:
    """The spare has the position that was lost, and the losses are the same."""
    scene = run(running, tmp_path, {1: ["kill=3"]})
    assert scene.codes[1] == -signal.SIGKILL
    assert scene.losses == undisturbed
    assert [scene.last(member) for member in (0, 2)] == [f"done {STEPS} position 0", f"done {STEPS} position 2"]
    assert sorted(scene.last(member) for member in (3, 4)) == ["done -1", f"done {STEPS} position 1"]
    assert {tuple(scene.recoveries(member)) for member in (0, 2, 3, 4)} == {("lost=1 replacement=3 step=3",)}


@full
def test_replacement_that_dies_while_it_loads(
    running: Running, undisturbed: dict[int, set[str]], tmp_path: Path
) -> None:
    """Then the other one has the position."""
    scene = run(running, tmp_path, {1: ["kill=2"], 3: ["kill-loading"]})
    assert scene.losses == undisturbed
    assert scene.last(4) == f"done {STEPS} position 1"
    assert {member: scene.codes[member] for member in (1, 3)} == dict.fromkeys((1, 3), -signal.SIGKILL)


@full
@pytest.mark.parametrize("route", ["ring", "tree"])
def test_two_at_once(running: Running, undisturbed: dict[int, set[str]], tmp_path: Path, route: str) -> None:
    """On another route the sums have other bits."""
    scene = run(running, tmp_path, {1: ["kill=3"], 2: ["kill=3"]}, route)
    assert route == "tree" or scene.losses == undisturbed
    assert scene.losses.keys() == undisturbed.keys()
    assert {len(found) for found in scene.losses.values()} == {1}
    expected = {f"done {STEPS} position {place}" for place in range(WORKERS)}
    assert {scene.last(member) for member in (0, 3, 4)} == expected


@full
@pytest.mark.parametrize("member", [0, 2])
def test_stopped_for_long(running: Running, undisturbed: dict[int, set[str]], tmp_path: Path, member: int) -> None:
    """It is replaced; when it goes on, it is told that it is fenced off, and has changed nothing."""
    scene = run(running, tmp_path, {member: ["stop=3"]})
    assert scene.losses == undisturbed
    assert scene.last(member).startswith("Fenced")
    assert f"done {STEPS} position {member}" in {scene.last(spare) for spare in (3, 4)}


@full
def test_more_failures_than_spares(running: Running, undisturbed: dict[int, set[str]], tmp_path: Path) -> None:
    """The ring is rebuilt without the third, and goes on with two."""
    scene = run(running, tmp_path, {1: ["kill=2"], 3: ["kill=4"], 4: ["kill=6"]})
    assert {step: scene.losses[step] for step in range(6)} == {step: undisturbed[step] for step in range(6)}
    assert [scene.last(member) for member in (0, 2)] == [f"done {STEPS} position 0", f"done {STEPS} position 1"]
    assert {scene.recoveries(0)[-1], scene.recoveries(2)[-1]} == {"lost=4 replacement=None step=6"}


@full
def test_spare_that_is_lost(running: Running, undisturbed: dict[int, set[str]], tmp_path: Path) -> None:
    """The workers miss it when they need the other one."""
    scene = run(running, tmp_path, {1: ["kill=5"], 3: ["kill-waiting"]})
    assert scene.losses == undisturbed
    assert scene.last(4) == f"done {STEPS} position 1"

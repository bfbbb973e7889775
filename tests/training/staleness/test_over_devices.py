"""Training by real processes over real devices: four nodes below a switch, on loopback."""

import functools
import importlib.util
import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fanin_tools.fabric.generate import Shape
from fanin_train.staleness.replica import SGD
from fanin_train.staleness.simulation.learning import share, synchronous, task
from tests.e2e.fabrics import Bench, assert_released
from tests.training.staleness.rank import MOMENTUM, RATE, SEED
from tests.waiting import TORCH_BOUND_S

pytestmark = pytest.mark.process
NODES = 4
ROOT = Path(__file__).parents[3]
FANIN = [sys.executable, "-c", "from fanin_tools.cli.app import main; main()"]


class Fabric:
    def __init__(self, bench: Bench, shape: Shape) -> None:
        self.running = bench.up(shape)

    def train(
        self, folder: Path, ranks: int = NODES, code: int = 0, module: str = "rank", **options: Any
    ) -> dict[int, Any]:
        """Run the ranks to their end. Returns the results by rank."""
        name = self.running.fabric.name
        program = [sys.executable, "-m", f"tests.training.staleness.{module}", str(folder), json.dumps(options)]
        command = [*FANIN, "run", "--name", name, "-n", str(ranks), "--slots", "16", "--prefix", "--keep-going"]
        done = subprocess.run([*command, "--", *program], capture_output=True, text=True, timeout=TORCH_BOUND_S)
        assert done.returncode == code, done.stdout + done.stderr
        assert_released(self.running)
        found = {}
        for path in sorted(folder.glob("*.npz")):
            with np.load(path) as file:
                found[int(path.stem)] = dict(file)
            path.unlink()
        return found


@pytest.fixture(scope="module")
def fabric(bench: Bench) -> Fabric:
    return Fabric(bench, Shape(NODES, 2))


def expected(last: int) -> np.ndarray:
    return synchronous(task("drawn", "softmax"), lambda: SGD(RATE, MOMENTUM), NODES, last, SEED)


def expected_of_growing(last: int, joins_at: int) -> np.ndarray:
    """The parameters of synchronous training that the last node joins before a step."""
    learnt, optimiser = task("drawn", "softmax"), SGD(RATE, MOMENTUM)
    parameters = learnt.parameters(SEED)
    for number in range(1, last + 1):
        nodes = NODES - (number < joins_at)
        shares = [share(learnt, parameters, learnt.batch(SEED, rank, number), nodes) for rank in range(nodes)]
        optimiser.step(parameters, functools.reduce(np.add, shares))
    return parameters


def test_bound_zero_is_synchronous_training(fabric: Fabric, tmp_path: Path) -> None:
    found = fabric.train(tmp_path, stale_max=0, last=6)
    assert len(found) == NODES
    for each in found.values():
        assert each["own"].tobytes() == expected(6).tobytes()
        assert each["ahead"] == 0


def test_a_straggler_is_waited_for_at_the_bound(fabric: Fabric, tmp_path: Path) -> None:
    """Rank 2 begins when the others are at the bound: they are as far ahead as allowed."""
    found = fabric.train(tmp_path, stale_max=3, last=12, holds=2)
    assert max(int(each["ahead"]) for each in found.values()) == 3
    assert all(each["steps_at_bound"] for rank, each in found.items() if rank != 2)
    assert len({each["parameters"].tobytes() for each in found.values()}) == 1, "the end is that of the first rank"


def test_fixed_steps_repeat_whatever_the_straggler_does(fabric: Fabric, tmp_path: Path) -> None:
    """Also from a checkpoint in the middle: its run has the same bits as the original."""
    fixed = {"stale_max": 2, "last": 10, "apply": "fixed", "checkpoint": 5}
    one = fabric.train(tmp_path, holds=1, **fixed)
    other = fabric.train(tmp_path, holds=3, **fixed)
    resumed = fabric.train(tmp_path, resume=True, **fixed)
    everything = [each["parameters"].tobytes() for run in (one, other, resumed) for each in run.values()]
    assert len(everything) == 3 * NODES
    assert len(set(everything)) == 1


def test_the_others_go_on_after_a_kill(fabric: Fabric, tmp_path: Path) -> None:
    found = fabric.train(tmp_path, code=128 + signal.SIGKILL, stale_max=2, last=12, survive=True, dies=1, dies_at=5)
    assert found.keys() == {0, 2, 3}
    assert len({each["parameters"].tobytes() for each in found.values()}) == 1
    assert all(np.isfinite(each["loss"]) for each in found.values())


def test_ranks_of_a_node_are_summed_by_its_nic(fabric: Fabric, tmp_path: Path) -> None:
    """Two ranks on each of four nodes: the means of two, and of four, are the mean of eight, but for rounding."""
    found = fabric.train(tmp_path, ranks=2 * NODES, stale_max=0, last=3)
    whole = synchronous(task("drawn", "softmax"), lambda: SGD(RATE, MOMENTUM), 2 * NODES, 3, SEED)
    assert len(found) == 2 * NODES
    for each in found.values():
        np.testing.assert_allclose(each["own"], whole, atol=1e-6)


@pytest.mark.parametrize(("stale_max", "apply"), [(0, "arrived"), (2, "fixed"), (2, "arrived")])
def test_a_node_joins_in_the_middle(fabric: Fabric, tmp_path: Path, stale_max: int, apply: str) -> None:
    """It gets parameters and momentum, and counts in the mean from its first step on."""
    last, joins_at = 9, 5
    found = fabric.train(tmp_path, stale_max=stale_max, apply=apply, last=last, joins=NODES - 1, joins_at=joins_at)
    assert len(found) == NODES
    assert len({each["parameters"].tobytes() for each in found.values()}) == 1
    assert {rank: int(each["steps"]) for rank, each in found.items()} == {0: 9, 1: 9, 2: 9, 3: 5}
    if stale_max == 0:
        assert found[3]["own"].tobytes() == expected_of_growing(last, joins_at).tobytes()


def test_a_wide_bound(fabric: Fabric, tmp_path: Path) -> None:
    """More gradients than the regions that a device allows a rank."""
    found = fabric.train(tmp_path, stale_max=40, last=6)
    assert len({each["parameters"].tobytes() for each in found.values()}) == 1
    assert len(found) == NODES


def test_what_can_not_begin_is_refused(fabric: Fabric, tmp_path: Path) -> None:
    found = fabric.train(tmp_path, ranks=2, module="refused_rank")
    assert len(found) == 2
    for each in found.values():
        assert str(each["all join"]).startswith("all ranks join, and none is in the training; ")
        assert str(each["joins with a checkpoint"]).startswith("a rank that joins has a checkpoint; ")
        assert str(each["other bounds"]).endswith("; give all ranks the same")


HAS_TORCH = pytest.mark.skipif(
    not importlib.util.find_spec("torch"), reason="torch is not installed: make .venv/.with-torch"
)


@HAS_TORCH
def test_all_ways_of_the_example_learn(fabric: Fabric) -> None:
    """A way that does not prints inf."""
    options = ["--local", "4", "--steps", "60", "--target", "2.2", "--step-ms", "1", "--pause", "0", "--runs", "1"]
    program = [sys.executable, str(ROOT / "examples/training/stragglers.py"), *options]
    command = [*FANIN, "run", "--name", fabric.running.fabric.name, "-n", "2", "--slots", "16", "--", *program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TORCH_BOUND_S)
    assert done.returncode == 0, done.stdout + done.stderr
    ways = re.findall(r"^(.*): [0-9.]+ s to loss 2.2", done.stdout, re.MULTILINE)
    assert ways == ["synchronous", "stale 8", "PostLocalSGD 4"], done.stdout


@HAS_TORCH
def test_models_of_torch_with_bound_zero_are_synchronous_training(fabric: Fabric, tmp_path: Path) -> None:
    """Through the entry for PyTorch, to the last bit. With a bound of one they differ: the comparison can fail."""
    found = fabric.train(tmp_path, module="torch_rank", bounds=[0, 1], last=6, bits=[16, 32, 64])
    assert len(found) == NODES
    for each in found.values():
        for bits in (16, 32, 64):
            assert each[f"{bits} at 0"].tobytes() == each[f"{bits} expected"].tobytes(), bits
            assert each[f"{bits} at 1"].tobytes() != each[f"{bits} expected"].tobytes(), bits

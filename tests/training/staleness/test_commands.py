"""`fanin train-sim` for users, and its comparisons."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from fanin_tools.cli.app import app
from fanin_train.errors import TrainingError
from fanin_train.staleness.replica import SGD, Checkpoint
from fanin_train.staleness.simulation.comparison import Comparison
from fanin_train.staleness.simulation.learning import task
from fanin_train.staleness.simulation.scenario import Events, Network, Pauses, Scenario

SHORT = ["train-sim", "--nodes", "3", "--seconds", "4", "--stale", "2", "--model", "softmax", "--local-steps", "4"]


@pytest.mark.process  # matplotlib asks for the fonts
def test_methods_are_compared_and_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    result = CliRunner().invoke(app, [*SHORT, "--pictures", str(tmp_path / "pictures"), "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert [each["method"] for each in found] == ["synchronous", "stale 2", "no bound", "local SGD 4"]
    for name in ("losses.png", "timeline.png"):
        assert (tmp_path / "pictures" / name).read_bytes().startswith(b"\x89PNG")


def test_pauses_cost_synchronous_training_most() -> None:
    comparison = Comparison(Scenario(4, pauses=Pauses(0.1), duration=20), task("drawn"), SGD)
    synchronous, bounded, free = comparison.synchronous(), comparison.bounded(4), comparison.asynchronous()
    assert synchronous.iterations < bounded.iterations <= free.iterations
    assert bounded.iterations > 1.4 * synchronous.iterations
    assert bounded.bytes_sent < synchronous.bytes_sent < bounded.bytes_without


def test_a_death_is_waited_for_until_it_is_noticed() -> None:
    """Then the others go on; its timeline ends."""
    comparison = Comparison(Scenario(3, events=Events({1: 1.0}, detection=2.0), duration=6), task("drawn"), SGD)
    for outcome in (comparison.synchronous(), comparison.bounded(2), comparison.local_descent(4)):
        waits = [each.end for each in outcome.intervals if each.rank == 0 and not each.computing and each.begin < 2.0]
        assert max(waits) == pytest.approx(3.0, abs=0.1)
        assert max(each.end for each in outcome.intervals if each.rank == 1) == pytest.approx(1.0)
        assert max(each.end for each in outcome.intervals if each.rank == 2) > 5.0


def test_transfers_cost_synchronous_training_and_are_hidden_behind_a_bound() -> None:
    """As long as the gradients of all others pass the link in less than a step; then the link is the limit."""
    short, long = (
        Comparison(Scenario(4, network=Network(0.001, each), duration=20), task("drawn"), SGD) for each in (0.02, 0.1)
    )
    steps = 4 * 20 / 0.1
    assert short.synchronous().iterations < 0.85 * steps
    assert short.bounded(4).iterations > 0.97 * steps
    assert long.bounded(4).iterations < 0.4 * steps < long.synchronous().iterations


def test_a_slow_node_gates_every_bounded_method() -> None:
    """A bound gives only a lead of so many steps."""
    comparison = Comparison(Scenario(4, pauses=Pauses(slow=(3,)), duration=20), task("drawn"), SGD)
    assert comparison.bounded(4).iterations - comparison.synchronous().iterations <= 4 * (4 + 3)


@pytest.mark.parametrize(
    "wrong",
    [["--stale", "few"], ["--stale", "-1"], ["--death", "9"], ["--nodes", "3", "--slow", "3"], ["--data", "faces"]],
)
def test_wrong_options_are_refused_by_name(wrong: list[str]) -> None:
    result = CliRunner().invoke(app, ["train-sim", *wrong, "--seconds", "1", "--json"])
    assert result.exit_code == 2
    error = json.loads(result.stdout)["error"]
    assert error["name"] == "INVALID_REQUEST"
    assert error["remedy"]


def test_a_checkpoint_is_read_as_it_was_written(tmp_path: Path) -> None:
    made = Checkpoint(7, np.arange(3, dtype=np.float32), {"velocity": np.ones(3, np.float32)}, {0: 7, 1: 8})
    made.save(tmp_path / "checkpoint")
    read = Checkpoint.read(tmp_path / "checkpoint")
    assert (read.order, read.clock) == (7, {0: 7, 1: 8})
    assert read.parameters.tobytes() == made.parameters.tobytes()
    assert read.optimiser["velocity"].tobytes() == made.optimiser["velocity"].tobytes()
    for content in (None, b"", b"nothing"):
        if content is not None:
            (tmp_path / "other").write_bytes(content)
        with pytest.raises(TrainingError, match="is not a checkpoint"):
            Checkpoint.read(tmp_path / "other")

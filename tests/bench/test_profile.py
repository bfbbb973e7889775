"""The profile of a device counts time in the right stage, and only while a client asks for it."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from fanin_nic.native.profile import Profile, Stage, lap
from fanin_tools.bench import profile
from fanin_tools.cli.app import app
from fanin_tools.fabric import device_query, lifecycle
from fanin_tools.fabric.generate import Plan, Shape
from tests.fabric.fixtures import ignore


def test_time_since_the_last_lap_goes_to_the_stage() -> None:
    counters = Profile()
    address = np.uint64(counters.begin())
    for stage in (Stage.SEND, Stage.SLEEP, Stage.SEND):
        lap(address, int(stage))
    found = counters.stages()
    assert found["send"][1] == 2
    assert found["sleep"][1] == 1
    assert found["send"][0] > 0
    assert sum(laps for _, laps in found.values()) == 3
    counters.begin()
    assert sum(laps for _, laps in counters.stages().values()) == 0


def test_every_stage_has_a_title() -> None:
    assert list(profile.TITLES) == [stage.name.lower() for stage in Stage]


def await_control(path: Path, before: int) -> int:
    """Nanoseconds in the control socket as soon as they are more. A device counts what it serves in one go at the end:
    a question meanwhile is answered without its own time, and without that of the one before."""
    for _ in range(1000):
        if (nanoseconds := int(device_query.query_status(path)["profile"]["control"][0])) > before:
            return nanoseconds
    pytest.fail(f"a thousand questions have taken no time of the device beyond {before} ns")


def test_a_device_counts_as_long_as_somebody_asks(state_root: object) -> None:
    running = lifecycle.up(Plan("profile", Shape(1, 1, lanes=2)), ignore)
    path = running.state.socket("nic0")
    assert device_query.query_status(path)["profile"] is None
    with device_query.profiling(path):
        with device_query.profiling(path):
            first = await_control(path, 0)
        assert await_control(path, first) > first
    assert device_query.query_status(path)["profile"] is None
    lifecycle.down("profile")


@pytest.mark.parametrize("options", [[], ["--ordinary"]])
def test_stages_of_an_allreduce(state_root: object, monkeypatch: pytest.MonkeyPatch, options: list[str]) -> None:
    monkeypatch.setattr(profile, "MAX_OPERATIONS", 20)
    monkeypatch.setenv("FANIN_STAGING", "0")  # else ranks copy ordinary memory through registered memory
    result = CliRunner().invoke(app, ["bench", "profile", "--ranks", "2", "--sizes", "8,8M", "--json", *options])
    assert result.exit_code == 0, result.stderr
    rows = json.loads(result.stdout)["rows"]
    laps = {(row["bytes"], row["stage"]): row["laps"] for row in rows}
    assert {row["kind"] for row in rows} == {"nic"}
    assert 1 <= laps[8, "post"] <= 2
    assert laps[8, "complete"] >= 1
    assert (laps[8 << 20, "dma_read"] > 0) == bool(options)
    assert laps[8 << 20, "read_and_reduce" if not options else "reduce"] > 1


def test_only_work_counts_as_work() -> None:
    rows = [profile.Row(8, "nic", stage, 10.0, 1.0) for stage in profile.TITLES]
    assert profile.busy(rows, 8, "nic") == 10.0 * (len(Stage) - len(profile.WAITING))

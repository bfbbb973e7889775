"""Both kinds of traffic on one port progress, alone and together, with right data."""

import pytest

from fanin_tools.bench import fairness
from fanin_tools.bench.fairness import Load, measure
from fanin_tools.errors import ToolError
from fanin_tools.fabric import lifecycle
from fanin_tools.fabric.generate import Plan, Shape
from fanin_tools.fabric.lifecycle import Running
from tests.fabric.fixtures import ignore

pytestmark = pytest.mark.process


@pytest.fixture
def running(state_root: object, monkeypatch: pytest.MonkeyPatch) -> Running:
    monkeypatch.setattr(fairness, "SECONDS", 0.05)
    monkeypatch.setattr(fairness, "WARM_UP", 0.01)
    return lifecycle.up(Plan("fairness", Shape(2, 1)), ignore)


@pytest.mark.parametrize(("route", "polls"), [("tree", False), ("ring", True)])
def test_each_kind_gets_on_beside_the_other(running: Running, route: str, polls: bool) -> None:
    rows, uses = measure(running, Load(route, 1 << 20, polls), 1, ignore)
    assert [row.kind for row in rows] == ["allreduce", "RC WRITE"]
    assert all(row.alone > 0 and row.together > 0 and row.share == row.least_share for row in rows)
    assert {use.process for use in uses} == {device.name for device in running.fabric.daemons}
    lifecycle.down("fairness")


def test_wrong_data_end_the_measurement(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fairness, "_rank", lambda *_: lambda: 1)
    monkeypatch.setattr(fairness, "TURNS", {"RC WRITE": (False, True)})
    with pytest.raises(ToolError, match="WRONG_RESULT"):
        measure(running, Load("tree", 1 << 20, False), 1, ignore)
    lifecycle.down("fairness")

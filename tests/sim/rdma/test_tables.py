"""A schedule stays in the tables of its world, and a plan of another topology is refused."""

from itertools import count

import numpy as np
import pytest

from fanin_sim.rdma.plan import Plan, plan_of
from fanin_sim.rdma.schedule import ScheduleRunner
from fanin_sim.rdma.world import TOPOLOGIES, World

MARGIN = 64  # rows behind each table
SCHEDULES = 300


class MarginWorld(World):
    """A world with rows of zeros behind each table."""

    def __init__(self, topology: object) -> None:
        self.margins: dict[str, np.ndarray] = {}
        super().__init__(topology)  # type: ignore[arg-type]

    def _table(self, name: str, dtype: np.dtype, rows: int) -> np.ndarray:
        table = super()._table(name, dtype, rows + MARGIN)
        self.margins[name] = table[rows:]
        return table[:rows]


@pytest.fixture
def runner(monkeypatch: pytest.MonkeyPatch) -> ScheduleRunner:
    monkeypatch.setattr("fanin_sim.rdma.schedule.World", MarginWorld)
    return ScheduleRunner()


def assert_inside(runner: ScheduleRunner) -> None:
    for topology in range(len(TOPOLOGIES)):
        world = runner.world(topology)
        assert isinstance(world, MarginWorld)
        assert [name for name, margin in world.margins.items() if margin.tobytes().strip(b"\0")] == []


def test_preparation_writes_only_to_its_tables(runner: ScheduleRunner) -> None:
    """It runs one schedule of each topology; once it ran the same plan for all, with a side that some lack."""
    runner.prepare()
    assert_inside(runner)


def test_schedules_write_only_to_their_tables(runner: ScheduleRunner) -> None:
    for seed in range(SCHEDULES):
        runner.run(plan_of(seed))
    assert_inside(runner)


def first(member: str) -> Plan:
    """The plan of the first seed with a side, device or connection that topology 0 lacks."""
    least = {"wrong_side": 2, "restart_device": 2, "abandon_connection": 1}[member]
    return next(plan for plan in map(plan_of, count()) if getattr(plan, member) >= least)


@pytest.mark.parametrize("member", ["wrong_side", "restart_device", "abandon_connection"])
def test_plan_of_another_topology_is_refused(member: str) -> None:
    with pytest.raises(ValueError, match="another topology"):
        ScheduleRunner().run(first(member)._replace(topology=0))

"""Random schedules of the transport without violations. The mutants of the transport run this file."""

from fanin_sim.rdma.plan import plan_of
from fanin_sim.rdma.schedule import ScheduleRunner, describe

SCHEDULES = 1_500


def test_nothing_is_violated() -> None:
    runner = ScheduleRunner()
    for seed in range(SCHEDULES):
        outcome = runner.run(plan_of(seed))
        assert not outcome.violation, f"seed {seed}: {describe(outcome)}"

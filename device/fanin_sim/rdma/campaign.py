"""Campaigns of the simulator of ordinary RDMA traffic: a violation is explained by its last events."""

import functools

from fanin_sim.campaign import TAIL, Campaign, Replay, Tell, nobody, run_campaign
from fanin_sim.findings import Finding
from fanin_sim.rdma.codes import Violation
from fanin_sim.rdma.plan import plan_of
from fanin_sim.rdma.schedule import Outcome, ScheduleRunner, describe
from fanin_sim.rdma.tally import RdmaTally, category_of
from fanin_sim.rdma.trace_format import heading, lines_of


def prepare() -> None:
    """Load the compiled code, or compile it."""
    schedule_runner().prepare()


def run(
    seconds: float, seed: int = 1, processes: int = 2, *, schedules: int | None = None, tell: Tell = nobody
) -> RdmaTally:
    """Run schedules in several processes. The arguments are those of `campaign.run_campaign`."""
    prepare()
    return run_campaign(Campaign(RdmaTally, _run_seed, _crash), seconds, seed, processes, schedules, tell)


def _run_seed(seed: int, tally: RdmaTally) -> None:
    runner = schedule_runner()
    outcome = runner.run(plan_of(seed))
    tally.add(outcome)
    if outcome.violation:
        tally.findings.append(explain(runner, outcome))


def _crash(seed: int) -> Finding:
    return _finding(Violation.CRASH, seed, f"{heading(plan_of(seed))}: CRASH: the process has died")


def explain(runner: ScheduleRunner, broken: Outcome) -> Finding:
    outcome = runner.run(broken.plan, trace=True)
    events = list(lines_of(runner.trace_of(broken.plan)))[-TAIL:]
    description = f"{heading(broken.plan)}: {describe(outcome)}"
    return _finding(broken.violation, broken.plan.seed, description, tuple(events))


def _finding(violation: Violation, seed: int, description: str, details: tuple[str, ...] = ()) -> Finding:
    replay_command = f"fanin sim --rdma --seed {seed} --trace"
    return Finding(category_of(violation), description, replay_command, seed, details)


@functools.cache
def schedule_runner() -> ScheduleRunner:
    return ScheduleRunner()


def replay(seed: int) -> Replay:
    runner, plan = schedule_runner(), plan_of(seed)
    outcome = runner.run(plan, trace=True)
    violation = describe(outcome) if outcome.violation else ""
    return Replay(heading(plan), lines_of(runner.trace_of(plan)), violation)

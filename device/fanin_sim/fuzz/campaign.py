"""Campaigns of the schedule fuzzer: a violation is shrunk and explained."""

import functools

from fanin_sim.campaign import TAIL, Campaign, Replay, Tell, nobody, run_campaign
from fanin_sim.findings import Finding
from fanin_sim.fuzz.codes import Violation
from fanin_sim.fuzz.schedule import Outcome, ScheduleRunner, describe
from fanin_sim.fuzz.shrink import shrink
from fanin_sim.fuzz.tally import FuzzTally, category_of
from fanin_sim.fuzz.trace_format import TraceFormatter
from fanin_sim.fuzz.workloads import WORKLOADS


def prepare() -> None:
    """Load the compiled code, or compile it."""
    _ = schedule_runner().fault_targets


def run(
    seconds: float, seed: int = 1, processes: int = 2, *, schedules: int | None = None, tell: Tell = nobody
) -> FuzzTally:
    """Runs schedules in several processes. The arguments are those of `campaign.run_campaign`."""
    prepare()
    return run_campaign(Campaign(FuzzTally, _run_seed, _crash), seconds, seed, processes, schedules, tell)


def _run_seed(seed: int, tally: FuzzTally) -> None:
    runner = schedule_runner()
    outcome = runner.run(runner.plan(seed))
    tally.add(outcome)
    if outcome.violation:
        tally.findings.append(explain(runner, outcome))


def _crash(seed: int) -> Finding:
    workload = WORKLOADS[schedule_runner().plan(seed).workload].name
    return _finding(Violation.CRASH, seed, f"seed {seed}: {workload}: CRASH: the process has died")


def explain(runner: ScheduleRunner, broken: Outcome) -> Finding:
    """Shrinks a schedule that has violated an invariant; describes its faults and its last events."""
    short = shrink(runner, broken)
    formatter = TraceFormatter(short.plan)
    runner.run(short.plan, short.faults, trace=True)
    faults = (f"fault: {formatter.fault(fault)}" for fault in short.faults)
    events = list(formatter.lines(runner.trace_of(short.plan)))[-TAIL:]
    description = f"{formatter.heading()}: {describe(short.outcome)}"
    return _finding(broken.violation, broken.plan.seed, description, (*faults, *events))


def _finding(violation: Violation, seed: int, description: str, details: tuple[str, ...] = ()) -> Finding:
    replay = f"fanin sim --seed {seed} --trace"
    return Finding(category_of(violation), description, replay, seed, details)


@functools.cache
def schedule_runner() -> ScheduleRunner:
    return ScheduleRunner()


def replay(seed: int) -> Replay:
    runner = schedule_runner()
    plan = runner.plan(seed)
    outcome, formatter = runner.run(plan, trace=True), TraceFormatter(plan)
    violation = describe(outcome) if outcome.violation else ""
    return Replay(formatter.heading(), formatter.lines(runner.trace_of(plan)), violation)

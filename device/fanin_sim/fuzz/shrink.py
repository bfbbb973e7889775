"""Shrinks a schedule that violates an invariant: removes messages and faults while the violation stays.

ddmin: Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", 2002.
"""

from typing import NamedTuple

from fanin_sim.fuzz.codes import Violation
from fanin_sim.fuzz.plan import Fault, Plan
from fanin_sim.fuzz.schedule import Outcome, ScheduleRunner
from fanin_sim.fuzz.workloads import WORKLOADS

MAX_TRIALS = 2_000


class Shrunk(NamedTuple):
    """A shrunk schedule. `faults`: all that happen. `trials`: how many schedules were run to find it."""

    plan: Plan
    faults: tuple[Fault, ...]
    outcome: Outcome
    trials: int


def shrink(runner: ScheduleRunner, broken: Outcome) -> Shrunk:
    return _Search(runner, broken.violation).run(broken.plan, broken.faults)


class _Search:
    def __init__(self, runner: ScheduleRunner, violation: Violation) -> None:
        self.runner, self.violation = runner, violation
        self.trials = 0

    def run(self, plan: Plan, faults: tuple[Fault, ...]) -> Shrunk:
        before = None
        while before != (plan, faults):
            before = plan, faults
            faults = self._fewer_faults(plan, faults)
            plan = self._fewer_messages(plan, faults)
        return Shrunk(plan, faults, self.runner.run(plan, faults), self.trials)

    def _breaks(self, plan: Plan, faults: tuple[Fault, ...]) -> bool:
        self.trials += 1
        return self.trials < MAX_TRIALS and self.runner.run(plan, faults).violation == self.violation

    def _fewer_faults(self, plan: Plan, faults: tuple[Fault, ...]) -> tuple[Fault, ...]:
        """Removes runs of faults, long runs first."""
        length = len(faults)
        while length:
            start = 0
            while start < len(faults):
                fewer = faults[:start] + faults[start + length :]
                if self._breaks(plan, fewer):
                    faults = fewer
                else:
                    start += length
            length //= 2
        return faults

    def _fewer_messages(self, plan: Plan, faults: tuple[Fault, ...]) -> Plan:
        """Removes the last messages, and simplifies the plan."""
        most = min(plan.messages, len(WORKLOADS[plan.workload].postings))
        for count in range(most):
            if self._breaks(plan._replace(messages=count), faults):
                plan = plan._replace(messages=count)
                break
        for simpler in (plan._replace(first_position=0), plan._replace(pauses=0), plan._replace(gap=0)):
            if simpler != plan and self._breaks(simpler, faults):
                plan = simpler
        return plan

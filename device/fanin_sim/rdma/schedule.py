"""One schedule: a plan is written into its world and run, and its outcome read."""

from typing import NamedTuple

import numpy as np

from fanin_sim.rdma.codes import FaultKind, Violation
from fanin_sim.rdma.event_loop import START, run_schedule
from fanin_sim.rdma.plan import Plan, Profile, first_plan_of, names_only_its_own
from fanin_sim.rdma.world import TOPOLOGIES, TRACE_LINES, World

_MEMBERS = (
    *("budget", "most_in_a_row", "gap", "pause", "mtu", "retry_count", "rnr_retry", "reads", "timeout", "psn_base"),
    "is_shared",
    *("restart_device", "restart_at", "wrong_side", "wrong_generation", "wrong_request", "wrong_kind"),
    *("abandon_connection", "abandon_at"),
)
COUNTS = ("events", "deliveries", "completions", "succeeded", "failed", "received_messages", "connections_made")


class Outcome(NamedTuple):
    """The outcome of a schedule. counts: by the names of COUNTS. faults: how many of each kind."""

    plan: Plan
    violation: Violation
    location: int
    detail: int
    counts: dict[str, int]
    faults: dict[FaultKind, int]
    duration: int


class ScheduleRunner:
    """Runs schedules; it makes the worlds once."""

    def __init__(self) -> None:
        self._worlds: dict[int, World] = {}

    def world(self, topology: int) -> World:
        if topology not in self._worlds:
            self._worlds[topology] = World(TOPOLOGIES[topology])
        return self._worlds[topology]

    def prepare(self) -> None:
        """Compile the code and make all worlds."""
        for topology in range(len(TOPOLOGIES)):
            self.run(first_plan_of(topology))

    def run(self, plan: Plan, *, trace: bool = False) -> Outcome:
        """Run a plan. trace: keep a trace, see `trace_of`.

        Raises ValueError for a plan of another topology: compiled code would write outside of its tables.
        """
        if not names_only_its_own(plan):
            raise ValueError(f"a plan of another topology than {TOPOLOGIES[plan.topology].name}: {plan}")
        world = self.world(plan.topology)
        record = world.record
        record["seed"] = plan.seed % 2**64
        for name in _MEMBERS:
            record[name] = getattr(plan, name)
        record["rate"] = 0
        for kind, rate in plan.rates.items():
            record["rate"][kind] = rate
        record["checks_icrc"] = plan.profile != Profile.NO_ICRC
        record["trace_room"] = TRACE_LINES if trace else 0
        run_schedule(world.address)
        return Outcome(
            plan,
            Violation(int(record["violation"])),
            int(record["location"]),
            int(record["detail"]),
            {name: int(record[name]) for name in COUNTS},
            {kind: int(record["happened"][kind]) for kind in FaultKind if record["happened"][kind]},
            int(record["now"]) - START,
        )

    def trace_of(self, plan: Plan) -> np.ndarray:
        """The trace of the last run of a plan's topology, oldest line first."""
        return self.world(plan.topology).lines()


def describe(outcome: Outcome) -> str:
    """One line about a violation."""
    return f"{outcome.violation.name} at {outcome.location} ({outcome.detail})"

"""The kinds of stress in a soak run. Each works for some seconds from a seed, and adds to the tally."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from fanin_sim.findings import Tally as SimulatorTally
from fanin_tools.stress.faults import rounds as faults
from fanin_tools.stress.tally import Tally, Work

Round: TypeAlias = Callable[[float, int, Tally], None]

PROCESSES = 2  # of the simulator
SIMULATION, RDMA, FUZZING, FAULTS = "simulation", "rdma", "fuzzing", "faults"
LINK_FAULTS = "faults of links"


def simulate(seconds: float, seed: int, tally: Tally) -> None:
    """Schedules of the schedule fuzzer with the seeds `seed`, `seed` + 1, ..."""
    from fanin_sim import fuzz as schedule_fuzzer

    found = schedule_fuzzer.run(seconds, seed, PROCESSES)
    for work in (Work.SCHEDULES, Work.DELIVERIES, Work.PACKETS_LOST):
        tally.work[work] += found.counts[work.value]
    add_findings(found, tally)


def simulate_rdma(seconds: float, seed: int, tally: Tally) -> None:
    """Schedules of ordinary RDMA traffic with the seeds `seed`, `seed` + 1, ..."""
    from fanin_sim import rdma

    found = rdma.run(seconds, seed, PROCESSES)
    for work in (Work.SCHEDULES, Work.DELIVERIES):
        tally.work[work] += found.counts[work.value]
    tally.work[Work.PACKETS_LOST] += found.faults["LOSS"] + found.faults["CORRUPTION"]
    add_findings(found, tally)


def add_findings(found: SimulatorTally, tally: Tally) -> None:
    """Add a simulator's faults and findings."""
    tally.simulated_faults.update(found.faults)
    for finding in found.findings:
        tally.begin(finding.replay, seed=finding.seed)
        tally.find(finding.category, finding.description, details=finding.details)


def fuzz(seconds: float, seed: int, tally: Tally) -> None:
    """Hostile packets, messages and requests."""
    from fanin_tools.stress.fuzz import run

    run.run(seconds, seed, tally)


@contextmanager
def real_faults(tally: Tally) -> Iterator[Round]:
    """On one fabric for all rounds, so that leaks add up. The tally notes what this machine can not do."""
    if missing := faults.missing_requirements():
        tally.not_done[LINK_FAULTS] = missing
    with faults.fabric() as running:
        rounds = faults.FaultRounds(running, tally)
        yield lambda seconds, seed, _tally: rounds.run(seconds, seed)

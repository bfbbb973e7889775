"""The three kinds of stress in a soak run. Each works for some seconds from a seed, and adds to the tally."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from fanin_tools.stress.faults import rounds as faults
from fanin_tools.stress.tally import Tally, Violation, Work

Round: TypeAlias = Callable[[float, int, Tally], None]

PROCESSES = 2  # of the simulator
SIMULATION, FUZZING, FAULTS = "simulation", "fuzzing", "faults"
LINK_FAULTS = "faults of links"
WRONG_RESULTS = ("WRONG_RESULT", "DIFFERENT_RESULTS")  # violations that the simulator reports
HANGS = ("OPERATION_HANGS", "PACKET_STORM")


def simulate(seconds: float, seed: int, tally: Tally) -> None:
    """Run schedules of the simulator with the seeds `seed`, `seed` + 1, ..."""
    from fanin_nic.sim import storm

    found = storm.run(seconds, seed, PROCESSES)
    tally.work[Work.SCHEDULES] += found.schedules
    tally.work[Work.DELIVERIES] += found.deliveries
    tally.work[Work.PACKETS_LOST] += found.packets_lost
    tally.simulated_faults.update(found.faults)
    for failure in found.failures:
        tally.begin(f"fanin sim --seed {failure.seed} --trace")
        what = f"{failure.violation} in a simulated schedule: {failure.scene}, {failure.heading}"
        tally.find(violation_of(failure.violation), what)


def violation_of(name: str) -> Violation:
    """The kind of a violation that the simulator calls `name`."""
    if name in WRONG_RESULTS:
        return Violation.WRONG_RESULT
    return Violation.HANG if name in HANGS else Violation.OTHER


def fuzz(seconds: float, seed: int, tally: Tally) -> None:
    """Send hostile packets, messages and requests."""
    from fanin_tools.stress.fuzz import run

    run.run(seconds, seed, tally)


@contextmanager
def real_faults(tally: Tally) -> Iterator[Round]:
    """Bring up one fabric for all rounds of real faults, so that leaks add up.

    The tally notes what this machine can not do.
    """
    if missing := faults.missing_requirements():
        tally.not_done[LINK_FAULTS] = missing
    with faults.fabric() as running:
        rounds = faults.FaultRounds(running, tally)
        yield lambda seconds, seed, _tally: rounds.run(seconds, seed)

"""The three kinds of rounds. Each works for about so many seconds from a seed, and adds to the tally."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from fanin_tools.stress.faults import rounds as faults
from fanin_tools.stress.tally import Finding, Tally

Round: TypeAlias = Callable[[float, int, Tally], None]

PROCESSES = 2  # of the simulator
SIMULATION, FUZZING, FAULTS = "simulation", "fuzzing", "faults"
LINK_FAULTS = "faults of links"


def simulate(seconds: float, seed: int, tally: Tally) -> None:
    """Schedules of the simulator, from seed on."""
    from fanin_nic.sim import storm

    found = storm.run(seconds, seed, PROCESSES)
    tally.schedules += found.schedules
    tally.deliveries += found.deliveries
    tally.packets_lost += found.packets_lost
    tally.simulated_faults.update(found.faults)
    tally.wrong_results += found.wrong_results
    tally.hangs += found.hangs
    tally.other_violations += len(found.failures) - found.wrong_results - found.hangs
    for failure in found.failures:
        what = f"{failure.violation} in a simulated schedule: {failure.scene}, {failure.heading}"
        tally.findings.append(Finding(what, f"fanin sim --seed {failure.seed} --trace"))


def fuzz(seconds: float, seed: int, tally: Tally) -> None:
    """Hostile packets and clients."""
    from fanin_tools.stress.fuzz.run import run

    found = run(seconds, seed)
    tally.inputs += found.packets + found.datagrams + found.messages + found.work_requests + found.scribbles
    tally.other_violations += len(found.findings)
    replay = f"python -m fanin_tools.stress.fuzz --seconds {max(1, math.ceil(seconds))} --seed {seed}"
    tally.findings += [Finding(what, replay) for what in found.findings]


class Strikes:
    """Real faults. All rounds of a soak run on one fabric: what leaks grows."""

    def __init__(self, rounds: faults.Rounds) -> None:
        self._rounds = rounds
        self._told = 0

    def __call__(self, seconds: float, seed: int, tally: Tally) -> None:
        """Rounds of the seeds `seed`, `seed` + 1, ... for so long; at least one."""
        end = time.monotonic() + seconds
        number = 0
        while number == 0 or time.monotonic() < end:
            self._rounds.play(seed + number)
            number += 1
        self._add_to(tally)

    def _add_to(self, tally: Tally) -> None:
        """The rounds' own tally is of all rounds since the fabric is up."""
        found = self._rounds.tally
        tally.rounds, tally.met, tally.messages = found.rounds, found.met, found.results
        tally.faults = found.faults
        tally.wrong_results += found.wrong
        tally.hangs += found.hangs
        tally.packets_lost += found.packets_lost
        tally.other_violations += found.undue + found.crashes + found.failures
        found.wrong = found.hangs = found.undue = found.crashes = found.failures = found.packets_lost = 0
        tally.leaked_slots, tally.leaked_files = found.leaks["slots"], found.leaks["files"]
        tally.leaked_memory = found.leaks["memory"]
        for seed, what in found.findings[self._told :]:
            tally.findings.append(Finding(what, f"fanin soak --replay {seed}"))
        self._told = len(found.findings)


@contextmanager
def strikes(tally: Tally) -> Iterator[Strikes]:
    """The fabric for real faults; what this machine can not do is noted."""
    if missing := faults.lacking():
        tally.not_done[LINK_FAULTS] = missing
    with faults.fabric() as running:
        yield Strikes(faults.Rounds(running))

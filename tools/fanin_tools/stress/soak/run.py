"""A soak run: laps of all kinds of rounds until the time is over."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack

from fanin_tools.stress.soak.rounds import FAULTS, FUZZING, SIMULATION, Round, fuzz, simulate, strikes
from fanin_tools.stress.tally import Tally

LAP_SECONDS = 60.0
SHARES = {SIMULATION: 0.3, FUZZING: 0.2, FAULTS: 0.5}  # of a lap
SEEDS_OF_A_LAP = 10_000_000  # more than a lap of anything uses

Tell = Callable[[str, float], None]  # what goes on, and the share of the time that is over


def soak(seconds: float, seed: int, kinds: tuple[str, ...], tell: Tell) -> Tally:
    """Rounds of `kinds` for so many seconds, from `seed`; compiling comes before and does not count."""
    tally = Tally(seed)
    with ExitStack() as stack:
        rounds: dict[str, Round] = {SIMULATION: simulate, FUZZING: fuzz}
        tell("getting ready", 0.0)
        if FAULTS in kinds:
            rounds[FAULTS] = stack.enter_context(strikes(tally))
        if SIMULATION in kinds:
            simulate(0, seed, tally)
        begun = time.monotonic()
        lap = 0
        while (left := begun + seconds - time.monotonic()) > 0:
            _lap(min(left, LAP_SECONDS), seed + lap * SEEDS_OF_A_LAP, kinds, rounds, tally, tell, 1 - left / seconds)
            lap += 1
        tally.seconds = time.monotonic() - begun
    tell("done", 1.0)
    return tally


def _lap(
    seconds: float, seed: int, kinds: tuple[str, ...], rounds: dict[str, Round], tally: Tally, tell: Tell, over: float
) -> None:
    whole = sum(SHARES[kind] for kind in kinds)
    for kind in kinds:
        tell(kind, over)
        rounds[kind](seconds * SHARES[kind] / whole, seed, tally)


def replay(seed: int) -> Tally:
    """One round of real faults again."""
    tally = Tally(seed)
    begun = time.monotonic()
    with strikes(tally) as strike:
        strike(0, seed, tally)
    tally.seconds = time.monotonic() - begun
    return tally

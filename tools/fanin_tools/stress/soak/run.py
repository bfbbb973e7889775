"""A soak run: cycles of all kinds of stress until the time is over."""

import time
from collections.abc import Callable
from contextlib import ExitStack

from fanin_tools.stress.soak.rounds import (
    FAULTS,
    FUZZING,
    RDMA,
    SIMULATION,
    Round,
    fuzz,
    real_faults,
    simulate,
    simulate_rdma,
)
from fanin_tools.stress.tally import Tally

CYCLE_SECONDS = 60.0
SHARES = {SIMULATION: 0.2, RDMA: 0.1, FUZZING: 0.2, FAULTS: 0.5}  # of a cycle
SEEDS_PER_CYCLE = 10_000_000  # more than any kind uses in one cycle

SoakProgress = Callable[[str, float], None]  # called with the current kind and the share of time so far


def soak(seconds: float, seed: int, kinds: tuple[str, ...], progress: SoakProgress) -> Tally:
    """Run cycles of `kinds` for `seconds`, without compiling and bringing a fabric up."""
    tally = Tally(seed)
    with ExitStack() as stack:
        rounds: dict[str, Round] = {SIMULATION: simulate, RDMA: simulate_rdma, FUZZING: fuzz}
        progress("getting ready", 0.0)
        if FAULTS in kinds:
            rounds[FAULTS] = stack.enter_context(real_faults(tally))
        if SIMULATION in kinds:
            simulate(0, seed, tally)
        if RDMA in kinds:
            simulate_rdma(0, seed, tally)
        start = time.monotonic()
        total = sum(SHARES[kind] for kind in kinds)
        while (left := start + seconds - time.monotonic()) > 0:
            for kind in kinds:
                progress(kind, 1 - left / seconds)
                rounds[kind](min(left, CYCLE_SECONDS) * SHARES[kind] / total, seed, tally)
            seed += SEEDS_PER_CYCLE
        tally.seconds = time.monotonic() - start
    progress("done", 1.0)
    return tally


def replay(seed: int) -> Tally:
    """Repeat one round of real faults."""
    tally = Tally(seed)
    start = time.monotonic()
    with real_faults(tally) as run_faults:
        run_faults(0, seed, tally)
    tally.seconds = time.monotonic() - start
    return tally

"""A soak run: cycles of all kinds of stress until the time is over, and its table."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, TypeAlias

from fanin_sim.findings import Category
from fanin_sim.findings import Tally as SimulatorTally
from fanin_tools.stress.faults import rounds as faults
from fanin_tools.stress.tally import HOSTILE_INPUT, Tally, Work

CYCLE_SECONDS = 60.0
SIMULATION, RDMA, FUZZING, FAULTS = "simulation", "rdma", "fuzzing", "faults"
LINK_FAULTS = "faults of links"
SHARES = {SIMULATION: 0.2, RDMA: 0.1, FUZZING: 0.2, FAULTS: 0.5}  # of a cycle
SEEDS_PER_CYCLE = 10_000_000  # more than any kind uses in one cycle
PROCESSES = 2  # of the simulator
VIOLATION_ROWS = {
    Category.WRONG_RESULT: "wrong results",
    Category.HANG: "hangs",
    Category.OTHER: "other violations",
    Category.LEAKED_SLOTS: "leaks of segment buffers",
    Category.LEAKED_FILES: "leaks of files",
    Category.LEAKED_MEMORY: "leaks of memory",
}
Round: TypeAlias = Callable[[float, int, Tally], None]
SoakProgress = Callable[[str, float], None]  # called with the current kind and the share of time so far


# The run


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


# The kinds of stress: each works for some seconds from a seed, and adds to the tally


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


# The report


def table(tally: Tally) -> Any:
    """For a terminal, with violations in red."""
    from rich.table import Table

    verdict = "clean" if tally.is_clean else "NOT CLEAN"
    shown = Table(title=f"soak, seed {tally.seed}: {verdict}", title_justify="left", show_header=False)
    for name, value, is_violation in rows(tally):
        shown.add_row(name, value, style="bold red" if is_violation else None)
    return shown


def rows(tally: Tally) -> list[tuple[str, str, bool]]:
    """Name, value, and whether the value is a violation."""
    work = tally.work
    hostile_input = sum(work[kind] for kind in HOSTILE_INPUT)
    shown = [
        ("seconds", f"{tally.seconds:.0f}"),
        ("schedules simulated", f"{work[Work.SCHEDULES]:,}"),
        ("packets delivered in them", f"{work[Work.DELIVERIES]:,}"),
        ("faults simulated", _by_kind(tally.simulated_faults)),
        ("hostile inputs", f"{hostile_input:,}"),
        ("rounds of real faults", f"{work[Work.FAULT_ROUNDS]:,}"),
        ("real faults", _by_kind(tally.faults)),
        ("faults during a collective", f"{work[Work.FAULTS_DURING_WORK]:,}"),
        ("right results in these rounds", f"{work[Work.RIGHT_RESULTS]:,}"),
        ("packets lost, real and simulated", f"{work[Work.PACKETS_LOST]:,}"),
    ]
    missing = [(f"not done: {what}", f"this machine lacks {lack}") for what, lack in tally.not_done.items()]
    violations = [(name, tally.violations[violation]) for violation, name in VIOLATION_ROWS.items()]
    return [
        *((name, value, False) for name, value in shown),
        *((name, f"{count:,}", count > 0) for name, count in violations),
        *((name, value, False) for name, value in missing),
    ]


def _by_kind(kinds: Counter[str]) -> str:
    return ", ".join(f"{name.lower().replace('_', ' ')} {count:,}" for name, count in sorted(kinds.items())) or "none"


def findings(tally: Tally) -> list[str]:
    """Two lines for each: what happened, and the command that repeats it."""
    return [f"{finding.description}\n    to repeat: {finding.replay}" for finding in tally.findings]

"""The devices' time in an allreduce, by stage, from counters that they enable on request."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from fanin_tools.bench.contenders import ours
from fanin_tools.bench.session import Session
from fanin_tools.bench.setups import ELEMENT, FIRST_WARM_UP, VOLUME, Setup, Variant
from fanin_tools.fabric import device_query
from fanin_tools.fabric.description import Device
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.progress import ProgressCallback
from fanin_tools.quantities import render_size

MAX_OPERATIONS, MIN_OPERATIONS = 5000, 10  # numbers of profiled operations
WAITING = ("look", "yield", "sleep")  # stages without work
TITLES = {
    "post": "doorbells, work requests taken",
    "read_and_reduce": "registered memory read and reduced",
    "dma_read": "ordinary memory read",
    "reduce": "packets taken in and reduced",
    "encapsulate": "headers and ICRC of packets out",
    "send": "kernel, sending",
    "receive": "kernel, receiving",
    "check": "headers and ICRC of packets in",
    "dma_write": "results written to ranks",
    "complete": "completions, ranks woken",
    "timers": "timers",
    "look": "looks that found nothing",
    "yield": "yields",
    "sleep": "sleep (laps: wake-ups)",
    "ordinary": "ordinary RDMA traffic",
    "control": "control socket",
}


@dataclass(frozen=True)
class Row:
    """A stage of the devices of one kind at one size: microseconds and laps of one device for one operation."""

    bytes: int
    kind: str
    stage: str
    microseconds: float
    laps: float


def measure(
    running: Running, setup: Setup, variant: Variant, sizes: Sequence[int], progress: ProgressCallback
) -> list[Row]:
    rows = []
    devices = running.fabric.daemons if variant.route == "tree" else running.fabric.nics
    with ours(setup, variant).start(running) as session:
        for size in sizes:
            progress(f"{render_size(size)} ...")
            rows += _profile(running, session, size, devices)
    return rows


def operations(size: int) -> int:
    """Many for short messages, to hide the start and the end of the profile."""
    return max(MIN_OPERATIONS, min(MAX_OPERATIONS, 4 * VOLUME // size))


def _profile(running: Running, session: Session, size: int, devices: Sequence[Device]) -> list[Row]:
    session.ask(do="prepare", count=size // ELEMENT, warm=FIRST_WARM_UP)
    with ExitStack() as stack:
        for device in devices:
            stack.enter_context(device_query.profiling(running.state.socket(device.name)))
        session.time(size, 0, operations(size))
        found = {device: device_query.query_status(running.state.socket(device.name))["profile"] for device in devices}
    session.release()
    rows = []
    for kind in dict.fromkeys(device.kind for device in devices):
        profiles = [profile for device, profile in found.items() if device.kind == kind]
        rows += _rows(size, kind, profiles)
    return rows


def _rows(size: int, kind: str, profiles: list[dict[str, tuple[int, int]]]) -> list[Row]:
    """The average over the devices of a kind."""
    share = len(profiles) * operations(size)
    rows = []
    for stage in TITLES:
        nanoseconds, laps = (sum(profile[stage][part] for profile in profiles) for part in (0, 1))
        rows.append(Row(size, kind, stage, nanoseconds / share / 1000, laps / share))
    return rows


def busy(rows: Sequence[Row], size: int, kind: str) -> float:
    """Microseconds of an operation in which a device of the kind works."""
    found = [row for row in rows if (row.bytes, row.kind) == (size, kind) and row.stage not in WAITING]
    return sum(row.microseconds for row in found)

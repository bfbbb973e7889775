"""Goodput against loss: allreduce between devices in namespaces, while the kernel loses packets at random.

All rates and routes take turns several times, so that other load affects all of them. Each measurement is a job of its
own, because a device learns a network's properties for each job. The first message of a job is sent without loss and
does not count.
"""

import statistics
from dataclasses import dataclass, field

from fanin_tools.bench.samples import slowest_rank
from fanin_tools.errors import ToolError
from fanin_tools.fabric import device_query
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.launch import job_file
from fanin_tools.launch.collective_call import CollectiveCall
from fanin_tools.launch.placement import place
from fanin_tools.launch.worker_pool import WorkerPool
from fanin_tools.progress import ProgressCallback
from fanin_tools.stress.faults.fault_kinds import cut_super_packets, loss, lost, require_loss

NODES = 4
ROUTES = ("tree", "ring")
PER_MILLE = (0, 1, 10, 50, 100)
REPETITIONS = 5


@dataclass(frozen=True)
class Row:
    """A row of the table, over all rounds.

    median_ms, slowest_ms: of all messages. goodput: bytes of the message per second of the median. share: of the
    goodput without loss. lost, probes, resent: packets for each message, over all links and devices.
    """

    route: str
    per_mille: int
    median_ms: float
    slowest_ms: float
    goodput: float
    share: float
    lost: float
    probes: float
    resent: float


@dataclass
class Sample:
    """A route at a rate of loss. times_ms: of the slowest rank, for each message."""

    times_ms: list[float] = field(default_factory=list)
    lost: int = 0
    probes: int = 0
    resent: int = 0


def measure(running: Running, size: int, rounds: int, progress: ProgressCallback) -> list[Row]:
    """Measure allreduce of `size` bytes of f32 at every rate of loss over every route."""
    require_loss(running.fabric)
    cut_super_packets(running.fabric)
    samples = {(route, rate): Sample() for route in ROUTES for rate in PER_MILLE}
    with WorkerPool(running, NODES) as pool:
        for number in range(rounds):
            for (route, rate), sample in samples.items():
                progress(f"round {number + 1} of {rounds}: {route}, {rate / 10:g} % lost ...")
                _add(sample, pool, route, rate, size)
    return [_row(route, rate, size, samples) for route, rate in samples]


def _add(sample: Sample, pool: WorkerPool, route: str, rate: int, size: int) -> None:
    placement = place(pool.running.fabric, NODES, route)
    pool.join(placement, job_file.describe(pool.running, placement))
    pool.call(NODES, "prepare", call=CollectiveCall("allreduce", size // 4).as_dict())
    pool.call(NODES, "run", repeat=1)
    before = _counters(pool.running)
    with loss(pool.running.fabric, rate):
        replies = pool.call(NODES, "run", repeat=REPETITIONS)
        after = _counters(pool.running)
        sample.lost += lost(pool.running.fabric)
    sample.probes += after["tx_PROBE"] - before["tx_PROBE"]
    sample.resent += after["resent"] - before["resent"]
    ranks = [[end - start for start, end in _spans(reply)] for reply in replies]
    sample.times_ms += [time * 1e-6 for time in slowest_rank(ranks)]
    if wrong := sum(reply["wrong"] for reply in pool.call(NODES, "verify")):
        cause = f"{route}, {rate / 10:g} % lost: {wrong} elements have a wrong bit"
        raise ToolError("WRONG_RESULT", cause, "this is a defect: report it with the output of fanin doctor --json")
    pool.call(NODES, "leave")


def _spans(reply: dict[str, list[int]]) -> list[tuple[int, int]]:
    return list(zip(reply["start_ns"], reply["end_ns"], strict=True))


def _counters(running: Running) -> dict[str, int]:
    """Summed over all devices."""
    found = [
        device_query.query_status(running.state.socket(device.name))["counters"] for device in running.fabric.daemons
    ]
    return {name: sum(counters[name] for counters in found) for name in ("tx_PROBE", "resent")}


def _row(route: str, rate: int, size: int, samples: dict[tuple[str, int], Sample]) -> Row:
    sample, messages = samples[route, rate], len(samples[route, rate].times_ms)
    median, lossless = (statistics.median(samples[route, each].times_ms) for each in (rate, 0))
    return Row(
        route=route,
        per_mille=rate,
        median_ms=median,
        slowest_ms=max(sample.times_ms),
        goodput=size / median * 1e3,
        share=lossless / median,
        lost=sample.lost / messages,
        probes=sample.probes / messages,
        resent=sample.resent / messages,
    )

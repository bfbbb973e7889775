"""Failures of nodes in random clusters: `python -m fanin_train.replacement.simulation [FAILURES]`.

Each failure has its own cluster: a ring of 8 nodes and up to 12 idle ones of the types of a public trace, links of 10,
25 or 100 Gbit/s, and a task. A type reaches 30 to 60 % of its peak. The monitor knows compute times of the types in the
ring, as one probe per type gives them, and must estimate the others. The step time after a choice is the true one.
"""

import random
import sys
from collections.abc import Callable
from dataclasses import dataclass

from fanin_train.replacement.choice import LITERAL, Estimate, Options, Rule, choose, communication_time
from fanin_train.replacement.records import OF_TRACE, Bandwidths, Monitor, Node, Task

RING, MAX_IDLE = 8, 12
LINKS = (1.25e9, 3.125e9, 12.5e9)  # bytes/s
UTILISATION = (0.3, 0.6)
TASK = "task"
STEPS = 3  # that each node has measured


@dataclass
class Cluster:
    """A cluster with a failed node. compute: true seconds of an iteration, by type."""

    monitor: Monitor
    bandwidths: Bandwidths
    compute: dict[str, float]
    failed: str

    def step_time(self, ring: tuple[str, ...]) -> float:
        """True seconds of a step: the slowest node with its link to the next."""
        task = self.monitor.task(TASK)
        times = []
        for at, address in enumerate(ring):
            way = self.bandwidths.between(address, ring[(at + 1) % len(ring)])
            times.append(self.compute[self.monitor.node(address).type] + communication_time(task, way, way, Options()))
        return max(times)


def make(chance: random.Random) -> Cluster:
    monitor, bandwidths = Monitor(), Bandwidths()
    ring = tuple(f"10.0.0.{number}" for number in range(RING))
    idle = tuple(f"10.0.1.{number}" for number in range(chance.randint(1, MAX_IDLE)))
    link = {address: chance.choice(LINKS) for address in (*ring, *idle)}
    task = Task(TASK, ring, chance.randrange(10_000_000, 500_000_000), chance.uniform(1, 20) * 1e12)
    compute = {kind.name: task.flop / kind.peak / chance.uniform(*UTILISATION) for kind in OF_TRACE}
    for address in (*ring, *idle):
        kind = chance.choice(OF_TRACE)
        monitor.add_node(Node(address, kind.name, kind.peak))
    for sender in link:
        for receiver in link:
            bandwidths.note(sender, receiver, min(link[sender], link[receiver]))
    monitor.add_task(task)
    cluster = Cluster(monitor, bandwidths, compute, chance.choice(ring))
    for at, address in enumerate(ring):
        name = monitor.node(address).type
        if (TASK, name) not in monitor.compute_times:
            monitor.note_compute_time(TASK, name, compute[name])
        way = bandwidths.between(address, ring[(at + 1) % RING])
        time = compute[name] + communication_time(task, way, way, Options())
        monitor.change(address, step_times=(time,) * STEPS)
    monitor.change(cluster.failed, alive=False)
    return cluster


def as_text(options: Options) -> Callable[[Cluster, random.Random], str | None]:
    """The rule of the text, with a check of it (AssertionError)."""

    def chosen(cluster: Cluster, chance: random.Random) -> str | None:
        choice = choose(cluster.monitor, cluster.bandwidths, cluster.failed, options)
        times = {each.node.address: each for each in choice.estimates}
        taken = times[str(choice.replacement)]
        good = [each for each in times.values() if each.time <= choice.average]
        least: Callable[[Estimate], float] = (lambda each: each.node.peak) if good else (lambda each: each.time)
        if choice.rule != (Rule.LEAST_PEAK if good else Rule.LEAST_TIME) or any(
            least(each) < least(taken) for each in good or times.values()
        ):
            raise AssertionError(f"{choice} is not what the text says")
        return choice.replacement

    return chosen


def fastest(cluster: Cluster, chance: random.Random) -> str | None:
    """The greatest peak."""
    return max(cluster.monitor.candidates(), key=lambda node: (node.peak, node.address)).address


def any_node(cluster: Cluster, chance: random.Random) -> str | None:
    return chance.choice(cluster.monitor.candidates()).address


POLICIES: dict[str, Callable[[Cluster, random.Random], str | None]] = {
    "the text, literally": as_text(LITERAL),
    "the text, with the default options": as_text(Options()),
    "take the fastest": fastest,
    "take any": any_node,
}


@dataclass(frozen=True)
class Outcome:
    """Means over all failures. ratio: step time after by before; worst: its largest; peak: their FLOP/s."""

    ratio: float
    worst: float
    slower: float  # part of the failures after which a step takes longer
    peak: float


def simulate(policy: Callable[[Cluster, random.Random], str | None], failures: int, seed: int = 1) -> Outcome:
    """All failures under one policy; each policy gets the same clusters."""
    chance, tosses = random.Random(seed), random.Random(seed)
    ratios, peaks = [], []
    for _ in range(failures):
        cluster = make(chance)
        ring = cluster.monitor.task(TASK).ring
        replacement = str(policy(cluster, tosses))
        after = tuple(replacement if address == cluster.failed else address for address in ring)
        ratios.append(cluster.step_time(after) / cluster.step_time(ring))
        peaks.append(cluster.monitor.node(replacement).peak)
    slower = sum(ratio > 1 + 1e-9 for ratio in ratios) / failures
    return Outcome(sum(ratios) / failures, max(ratios), slower, sum(peaks) / failures)


def table(failures: int = 2000) -> str:
    lines = [
        "| choice | step time after / before, mean | worst | longer than before | TFLOP/s taken, mean |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name, policy in POLICIES.items():
        found = simulate(policy, failures)
        lines.append(
            f"| {name} | {found.ratio:.3f} | {found.worst:.2f} | {found.slower:.1%} | {found.peak / 1e12:.1f} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(table(*map(int, sys.argv[1:2])), end="")

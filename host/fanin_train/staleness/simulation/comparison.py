"""Ways to train the same model in the same scenario: losses at equal time and at equal samples, and bytes."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from fanin_train.errors import TrainingError
from fanin_train.staleness.messages import Contribution, Rules, streaming
from fanin_train.staleness.replica import Optimiser
from fanin_train.staleness.simulation.cluster import Cluster, Interval, duration
from fanin_train.staleness.simulation.learning import Learner, Task
from fanin_train.staleness.simulation.scenario import Scenario

BATCH = 32  # images of one gradient
UNBOUNDED = 1 << 30


class Point(NamedTuple):
    """The loss of node 0's parameters on the images held out, at a time in seconds, after images of all nodes."""

    time: float
    samples: int
    loss: float


@dataclass
class Outcome:
    """The outcome of a method. bytes_sent: of a node for each gradient, if a switch multiplies; without: if not."""

    method: str
    bytes_sent: float
    bytes_without: float
    iterations: int = 0
    points: list[Point] = field(default_factory=list)
    intervals: list[Interval] = field(default_factory=list)

    def time_to(self, loss: float) -> float | None:
        """The time at which the loss was first so low; None: never."""
        return next((point.time for point in self.points if point.loss <= loss), None)

    def loss_at(self, time: float) -> float:
        return [point for point in self.points if point.time <= time][-1].loss

    def loss_after(self, samples: int) -> float:
        """The loss after so many images."""
        return [point for point in self.points if point.samples <= samples][-1].loss


@dataclass(frozen=True)
class Comparison:
    """One scenario for all methods. every: seconds between two looks at the loss."""

    scenario: Scenario
    task: Task
    optimiser: Callable[[], Optimiser]
    every: float = 1.0

    def synchronous(self) -> Outcome:
        """Each step waits for an allreduce by a switch, which passes one gradient over each link. `bytes` are those of
        an allreduce in a ring."""
        network = self.scenario.network
        allreduce = replace(network, transfer=network.transfer / max(1, self._others()))
        scenario = replace(self.scenario, network=allreduce)
        return self._by_protocol("synchronous", streaming(0), self._ring(), self._ring(), scenario)

    def bounded(self, stale_max: int) -> Outcome:
        """Bounded staleness; the network loses nothing, so clocks suffice."""
        return self._by_sending(f"stale {stale_max}", streaming(stale_max))

    def asynchronous(self) -> Outcome:
        """Without a bound."""
        return self._by_sending("no bound", streaming(UNBOUNDED))

    def local_descent(self, steps: int) -> Outcome:
        """Local SGD: each node makes some steps by itself, then all take the mean of the parameters."""
        if steps < 1:
            raise TrainingError(f"{steps} local steps", "give 1 or more")
        outcome = Outcome(f"local SGD {steps}", self._ring() / steps, self._ring() / steps)
        scenario, network = self.scenario, self.scenario.network
        learners = [self._learner(rank) for rank in range(scenario.nodes)]
        pace = [random.Random(f"{scenario.seed} {rank}") for rank in range(scenario.nodes)]
        now, number = 0.0, 0
        outcome.points.append(Point(0.0, 0, self.task.loss(learners[0].replica.parameters)))
        while now < scenario.duration:
            ends = {each.rank: self._descend(each, now, number, steps, pace[each.rank], outcome) for each in learners}
            number += steps
            lost = {rank: at for rank, at in scenario.events.deaths.items() if at < ends.get(rank, 0.0)}
            noticed = [at + scenario.events.detection for at in lost.values()]
            outcome.intervals = [
                each._replace(end=min(each.end, lost.get(each.rank, each.end)))
                for each in outcome.intervals
                if each.begin < lost.get(each.rank, each.end)
            ]
            learners = [each for each in learners if each.rank not in lost]
            ends = {each.rank: ends[each.rank] for each in learners}
            now = max([*ends.values(), *noticed]) + network.latency + network.transfer
            outcome.intervals += [Interval(rank, end, now, computing=False) for rank, end in ends.items()]
            outcome.iterations += steps * len(learners)
            mean: np.ndarray = np.stack([learner.replica.parameters for learner in learners]).mean(axis=0)
            for learner in learners:
                learner.replica.parameters[:] = mean
            if now >= outcome.points[-1].time + self.every:
                outcome.points.append(Point(now, outcome.iterations * BATCH, self.task.loss(mean)))
        return outcome

    def _descend(
        self, learner: Learner, begin: float, number: int, steps: int, draw: random.Random, outcome: Outcome
    ) -> float:
        """Steps of a node alone, after so many. Returns the time at which they end."""
        for step in range(number + 1, number + steps + 1):
            end = begin + duration(self.scenario, learner.rank, draw)
            learner.step((Contribution(step, learner.rank, learner.gradient(step, 1)),))
            outcome.intervals.append(Interval(learner.rank, begin, end, computing=True))
            begin = end
        return begin

    def _by_sending(self, method: str, rules: Rules) -> Outcome:
        """Each gradient goes to all other nodes."""
        return self._by_protocol(method, rules, self._size(), self._size() * self._others(), self.scenario)

    def _by_protocol(
        self, method: str, rules: Rules, bytes_sent: float, bytes_without: float, scenario: Scenario
    ) -> Outcome:
        outcome = Outcome(method, bytes_sent, bytes_without)
        first = self._learner(0)
        outcome.points.append(Point(0.0, 0, self.task.loss(first.replica.parameters)))

        def look(now: float, rank: int) -> None:
            if rank == 0 and now >= outcome.points[-1].time + self.every:
                samples = cluster.iterations * BATCH
                outcome.points.append(Point(now, samples, self.task.loss(first.replica.parameters)))

        cluster = Cluster(
            scenario, rules, lambda rank: first if rank == 0 else self._learner(rank), look, timeline=True
        )
        cluster.run()
        outcome.iterations, outcome.intervals = cluster.iterations, cluster.intervals or []
        return outcome

    def _learner(self, rank: int) -> Learner:
        return Learner(rank, self.task, self.optimiser(), self.scenario.seed)

    def _size(self) -> int:
        return self.task.parameters(0).nbytes

    def _others(self) -> int:
        return self.scenario.nodes - 1

    def _ring(self) -> float:
        return 2 * self._others() / self.scenario.nodes * self._size()

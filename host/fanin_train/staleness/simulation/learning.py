"""A node of a simulation that learns: a replica, and a task."""

from collections.abc import Callable

import numpy as np

from fanin_train.staleness.messages import Contribution
from fanin_train.staleness.optimisers import Optimiser
from fanin_train.staleness.replica import Content, Replica
from fanin_train.staleness.simulation.tasks import Task


class Learner:
    def __init__(self, rank: int, task: Task, optimiser: Optimiser, seed: int) -> None:
        self.rank, self.task, self.seed = rank, task, seed
        self.replica = Replica(task.parameters(seed), optimiser)

    def gradient(self, number: int, nodes: int) -> np.ndarray:
        """The gradient of this node's batch `number` at the current parameters, divided by the number of nodes."""
        return share(self.task, self.replica.parameters, self.task.batch(self.seed, self.rank, number), nodes)

    def step(self, contributions: tuple[Contribution, ...]) -> None:
        self.replica.step(contributions)

    def content(self) -> Content:
        return self.replica.content()

    def adopt(self, content: Content, contributions: tuple[Contribution, ...]) -> None:
        self.replica.adopt(content, contributions)


def share(task: Task, parameters: np.ndarray, batch: np.ndarray, nodes: int) -> np.ndarray:
    """A gradient divided by the number of nodes, as DDP of PyTorch does before it sums."""
    return task.gradient(parameters, batch) / parameters.dtype.type(nodes)


def synchronous(task: Task, optimiser: Callable[[], Optimiser], nodes: int, last: int, seed: int) -> np.ndarray:
    """The parameters after synchronous training without a protocol: gradients are summed in the order of ranks."""
    parameters, one = task.parameters(seed), optimiser()
    for number in range(1, last + 1):
        total = share(task, parameters, task.batch(seed, 0, number), nodes)
        for rank in range(1, nodes):
            total = total + share(task, parameters, task.batch(seed, rank, number), nodes)
        one.step(parameters, total)
    return parameters

"""What is known of nodes and tasks: monitoring [8], types of nodes, bandwidth between nodes [65].

The first four types are those of Alibaba's cluster of 2023 (github.com/alibaba/clusterdata, cluster-trace-gpu-v2023)
with public names, so not its G2 and G3. The text [87] names the others, or types like them. Bandwidths are an adjacency
matrix, of which a failure needs few new measurements.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from fanin_train.errors import TrainingError


class NodeType(NamedTuple):
    """peak: FLOP/s of f32 without tensor cores. source: of that number."""

    name: str
    peak: float
    source: str


NODE_TYPES = (
    NodeType("P100", 9.3e12, "NVIDIA Tesla P100 data sheet, PCIe"),
    NodeType("T4", 8.1e12, "NVIDIA T4 data sheet"),
    NodeType("V100", 14.0e12, "NVIDIA V100 data sheet, PCIe"),
    NodeType("A10", 31.2e12, "NVIDIA A10 data sheet"),
    NodeType("A100", 19.5e12, "NVIDIA A100 data sheet"),
    NodeType("MLU370", 24.0e12, "Cambricon MLU370-X4 product page"),
)
OF_TRACE = NODE_TYPES[:4]


class UnknownNode(TrainingError):
    """An address without a record."""

    def __init__(self, address: str) -> None:
        super().__init__(f"UNKNOWN_NODE: there is no record of node {address}", "add it with Monitor.add_node")


class UnknownTask(TrainingError):
    """A task without a record."""

    def __init__(self, task: str) -> None:
        super().__init__(f"UNKNOWN_TASK: there is no record of task {task}", "add it with Monitor.add_task")


class WrongRecord(TrainingError):
    """A record that contradicts itself or the others."""

    def __init__(self, cause: str) -> None:
        super().__init__(f"WRONG_RECORD: {cause}", "correct the record")


@dataclass(frozen=True)
class Node:
    """A node.

    address: its name, as `ip` of [89]
    type: of its processor [87]
    peak: FLOP/s, from the manual of the type [61] [94]
    alive: whether its heartbeat comes [60]
    task: id of its task [64] [102]; None if idle
    step_times: seconds of each step of its task, as it measured them [97]
    """

    address: str
    type: str
    peak: float
    alive: bool = True
    task: str | None = None
    step_times: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if not self.peak > 0:
            raise WrongRecord(f"node {self.address} has a peak of {self.peak} FLOP/s")
        if any(not time >= 0 for time in self.step_times):
            raise WrongRecord(f"node {self.address} has a step time below 0 s")


@dataclass(frozen=True)
class Task:
    """A training task.

    id: unique [102]
    ring: addresses of its nodes, in order; the last one sends to the first [89]
    parameters: of its model: W [86]
    flop: of a node in an iteration: S [86]
    element_bytes: bytes of a parameter
    model: its description [90]
    """

    id: str
    ring: tuple[str, ...]
    parameters: int
    flop: float
    element_bytes: int = 4
    model: str = ""

    def __post_init__(self) -> None:
        if not self.ring or len(set(self.ring)) != len(self.ring):
            raise WrongRecord(f"the ring of task {self.id} is empty, or has a node twice")
        if self.parameters < 0 or self.element_bytes < 1 or not self.flop >= 0:
            raise WrongRecord(f"task {self.id} has a number below 0")

    @property
    def bytes(self) -> int:
        """Bytes of its parameters, and of a gradient."""
        return self.parameters * self.element_bytes


@dataclass
class Monitor:
    """All records. compute_times: seconds of an iteration, by (task, type of node), from one probe [95]."""

    nodes: dict[str, Node] = field(default_factory=dict)
    tasks: dict[str, Task] = field(default_factory=dict)
    compute_times: dict[tuple[str, str], list[float]] = field(default_factory=dict)

    def add_node(self, node: Node) -> None:
        """Add or replace the record of a node. A node that comes back is idle [8]."""
        self.nodes[node.address] = node

    def add_task(self, task: Task) -> None:
        """Add a task; its nodes run it from now on. WrongRecord if one of them runs another."""
        for address in task.ring:
            if self.node(address).task not in (None, task.id):
                raise WrongRecord(f"node {address} runs task {self.node(address).task} already")
        self.tasks[task.id] = task
        for address in task.ring:
            self.change(address, task=task.id)

    def node(self, address: str) -> Node:
        if address not in self.nodes:
            raise UnknownNode(address)
        return self.nodes[address]

    def task(self, identifier: str) -> Task:
        if identifier not in self.tasks:
            raise UnknownTask(identifier)
        return self.tasks[identifier]

    def change(self, address: str, **members: object) -> None:
        self.nodes[address] = replace(self.node(address), **members)  # type: ignore[arg-type]

    def note_compute_time(self, task: str, kind: str, seconds: float) -> None:
        """Note a compute time of this type of node."""
        if not seconds > 0:
            raise WrongRecord(f"a compute time of {seconds} s")
        self.compute_times.setdefault((task, kind), []).append(seconds)

    def candidates(self) -> list[Node]:
        """The live nodes without a task [66] to [68]."""
        return [node for node in self.nodes.values() if node.alive and node.task is None]

    def failed(self, task: str) -> list[str]:
        """The dead nodes of a task, in the order of its ring."""
        return [address for address in self.task(task).ring if not self.node(address).alive]

    def average_time(self, task: str, without: Iterable[str] = ()) -> float:
        """T_avg in seconds: the mean step time of the node with the longest mean [97] [98].

        without: nodes to ignore. The failed one may have been the slowest; then the literal T_avg is too lax.
        WrongRecord if no node has measured a step.
        """
        measured = [self.node(address).step_times for address in self.task(task).ring if address not in set(without)]
        means = [sum(times) / len(times) for times in measured if times]
        if not means:
            raise WrongRecord(f"no node of task {task} has measured a step")
        return max(means)


@dataclass
class Bandwidths:
    """Bytes per second by (sender, receiver); 0: not connected."""

    of_pairs: dict[tuple[str, str], float] = field(default_factory=dict)

    def note(self, sender: str, receiver: str, bytes_per_second: float) -> None:
        """Take a measurement in place of an earlier one."""
        self.of_pairs[sender, receiver] = bytes_per_second

    def between(self, sender: str, receiver: str) -> float:
        """Bytes per second. UnknownBandwidth if the pair was not measured."""
        if (sender, receiver) not in self.of_pairs:
            raise UnknownBandwidth(sender, receiver)
        return self.of_pairs[sender, receiver]


class UnknownBandwidth(TrainingError):
    """A pair of nodes that was never measured."""

    def __init__(self, sender: str, receiver: str) -> None:
        super().__init__(
            f"UNKNOWN_BANDWIDTH: from {sender} to {receiver} nothing was measured", "measure the pair and note it"
        )


def pairs_after_failure(previous: str, following: str, candidates: Iterable[str]) -> list[tuple[str, str]]:
    """The pairs that the choice looks at and that need measuring: 2 for each candidate, not n (n - 1)."""
    return [pair for each in candidates for pair in ((previous, each), (each, following))]


def rounds_of(pairs: Iterable[tuple[str, str]]) -> list[list[tuple[str, str]]]:
    """The pairs in rounds, each node at most once in a round, so that no measurement disturbs another."""
    rounds: list[list[tuple[str, str]]] = []
    for pair in dict.fromkeys(pairs):
        for taken in rounds:
            if not any(set(pair) & set(other) for other in taken):
                taken.append(pair)
                break
        else:
            rounds.append([pair])
    return rounds

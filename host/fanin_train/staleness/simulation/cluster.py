"""Nodes of the protocol in virtual time. One seed gives one run, to the last bit."""

import heapq
import random
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from fanin_train.staleness.messages import (
    Action,
    Adopt,
    Commit,
    Compute,
    Contribution,
    Gradient,
    Message,
    Reply,
    Request,
    Rules,
    Send,
    SetTimer,
    Step,
    Welcome,
)
from fanin_train.staleness.node import Node
from fanin_train.staleness.simulation.scenario import Scenario


class Worker(Protocol):
    """The arithmetic of one node."""

    def gradient(self, number: int, nodes: int) -> Any:
        """The gradient of an order at the current parameters, divided by the number of nodes."""

    def step(self, contributions: tuple[Contribution, ...]) -> None:
        """As Replica.step."""

    def content(self) -> Any:
        """As Replica.content."""

    def adopt(self, content: Any, contributions: tuple[Contribution, ...]) -> None:
        """As Replica.adopt."""


class NoArithmetic:
    """For runs without parameters."""

    def gradient(self, number: int, nodes: int) -> None:
        """None."""

    def step(self, contributions: tuple[Contribution, ...]) -> None:
        """Nothing."""

    def content(self) -> None:
        """None."""

    def adopt(self, content: None, contributions: tuple[Contribution, ...]) -> None:
        """Nothing."""


class Interval(NamedTuple):
    """The time in which a node computes or (not `computing`) waits at the bound."""

    rank: int
    begin: float
    end: float
    computing: bool


class BoundBroken(AssertionError):
    """A node is further ahead than it may be."""


class Cluster:
    """All nodes of a scenario.

    worker: makes the arithmetic of a node. on_step: gets time and rank after every finished order. With `timeline` the
    intervals of each node are kept.
    """

    def __init__(
        self,
        scenario: Scenario,
        rules: Rules,
        worker: Callable[[int], Worker] = lambda rank: NoArithmetic(),
        on_step: Callable[[float, int], None] = lambda now, rank: None,
        timeline: bool = False,
    ) -> None:
        self.scenario, self.rules = scenario, rules
        self.now = 0.0
        self.random = random.Random(scenario.seed)
        self.intervals: list[Interval] | None = [] if timeline else None
        self.messages = self.snapshots = 0  # sent: gradients, and messages with parameters
        self.largest_gap = 0
        self.gone: set[int] = set()
        self._on_step = on_step
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._sequence = 0
        self._free_at: dict[tuple[int, int], float] = {}  # of a path, so that its messages keep their order
        self._link_free_at: dict[int, float] = {}  # of the link to a node, which gradients of all others share
        self._begun_at: dict[int, float] = {}
        self._finished_at: dict[int, float] = {}
        self._pace = [random.Random(f"{scenario.seed} {rank}") for rank in range(scenario.nodes)]
        self._members = [rank for rank in range(scenario.nodes) if rank not in scenario.events.joins]
        self._worker = worker
        self.workers: dict[int, Worker] = {}
        self.nodes: dict[int, Node] = {}
        for rank in self._members:
            self._add(rank, self._members, joining=False)

    def _add(self, rank: int, members: list[int], joining: bool) -> None:
        self.workers[rank] = worker = self._worker(rank)
        self.nodes[rank] = Node(
            rank, members, self.rules, worker.content, self.random.random, self.scenario.last, joining=joining
        )

    def run(self) -> None:
        """Run to the end of the time or of the work. Raises BoundBroken."""
        events = self.scenario.events
        for rank in self._members:
            self._do(rank, self.nodes[rank].start())
        for rank, time in events.deaths.items():
            self._at(time, lambda rank=rank: self._die(rank))  # type: ignore[misc]
        for rank, time in events.leaves.items():
            self._at(time, lambda rank=rank: self._leave(rank))  # type: ignore[misc]
        for rank, time in events.joins.items():
            self._at(time, lambda rank=rank: self._join(rank))  # type: ignore[misc]
        while self._events:
            time, _, event = heapq.heappop(self._events)
            if time > self.scenario.duration:
                break
            self.now = time
            event()

    def check_bound(self) -> None:
        """Check max(order) - min(finished) over all live members."""
        members = [node for rank, node in self.nodes.items() if rank not in self.gone and not node.joining]
        if not members:
            return
        gap = max(node.order for node in members) - min(node.finished for node in members)
        self.largest_gap = max(self.largest_gap, gap)
        if gap > self.rules.stale_max:
            orders = {node.rank: (node.order, node.finished) for node in members}
            raise BoundBroken(f"at {self.now:.3f} s, of seed {self.scenario.seed}: order and finished are {orders}")

    @property
    def iterations(self) -> int:
        """Gradients of all nodes in their own parameters."""
        return sum(node.order for node in self.nodes.values())

    def is_complete(self) -> bool:
        """Whether every live node has done all its iterations."""
        last = self.scenario.last
        return all(node.order == last for rank, node in self.nodes.items() if rank not in self.gone)

    def _at(self, time: float, event: Callable[[], None]) -> None:
        self._sequence += 1
        heapq.heappush(self._events, (time, self._sequence, event))

    def _do(self, rank: int, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case Send():
                    self._send(rank, action.to, action.message)
                case SetTimer():
                    self._set_timer(rank, action)
                case Step():
                    self.check_bound()
                    self.workers[rank].step(action.contributions)
                    self._on_step(self.now, rank)
                case Adopt():
                    self.workers[rank].adopt(action.snapshot.content, action.contributions)
                case Compute():
                    self.check_bound()  # after all that raises an order
                    self._compute(rank, action)

    def _compute(self, rank: int, action: Compute) -> None:
        if self.intervals is not None and self._finished_at.get(rank, self.now) < self.now:
            self.intervals.append(Interval(rank, self._finished_at[rank], self.now, computing=False))
        gradient = self.workers[rank].gradient(*action)  # from the parameters at the begin: others change them later
        begin = self._begun_at[rank] = self.now
        end = begin + duration(self.scenario, rank, self._pace[rank])

        def finish() -> None:
            if rank in self.gone:
                return
            if self.intervals is not None:
                self.intervals.append(Interval(rank, begin, end, computing=True))
            self._finished_at[rank] = end
            self._do(rank, self.nodes[rank].iteration_finished(gradient))

        self._at(end, finish)

    def _send(self, source: int, to: int, message: Message) -> None:
        network, draw = self.scenario.network, self.random.random
        self.messages += isinstance(message, Gradient)
        self.snapshots += isinstance(message, Request | Reply | Commit | Welcome)
        for copy in range(2 if network.duplication and draw() < network.duplication else 1):
            if network.loss and draw() < network.loss:
                continue
            time = self.now + network.latency * (1 + (network.jitter * draw() if network.jitter else 0.0))
            if not network.reorders and not copy:
                time = max(time, self._free_at.get((source, to), 0.0))
                self._free_at[source, to] = time
            if network.transfer and isinstance(message, Gradient):
                time = max(time, self._link_free_at.get(to, 0.0)) + network.transfer
                self._link_free_at[to] = time
            self._at(time, lambda: self._deliver(source, to, message))

    def _deliver(self, source: int, to: int, message: Message) -> None:
        if to not in self.gone and to in self.nodes:
            self._do(to, self.nodes[to].receive(source, message))

    def _set_timer(self, rank: int, action: SetTimer) -> None:
        def expire() -> None:
            if rank not in self.gone:
                self._do(rank, self.nodes[rank].expired(action.timer, action.generation))

        self._at(self.now + action.delay, expire)

    def _die(self, rank: int) -> None:
        if self.intervals is not None and rank in self._begun_at:
            begun, finished = self._begun_at[rank], self._finished_at.get(rank, 0.0)
            self.intervals.append(Interval(rank, max(begun, finished), self.now, computing=begun >= finished))
        self.gone.add(rank)
        self._at(self.now + self.scenario.events.detection, lambda: self._notice(rank))

    def _notice(self, rank: int) -> None:
        for other, node in self.nodes.items():
            if other not in self.gone and rank in node.others:
                self._do(other, node.lose(rank))

    def _leave(self, rank: int) -> None:
        if rank not in self.gone:
            self._do(rank, self.nodes[rank].leave())
            self._die(rank)

    def _join(self, rank: int) -> None:
        members = [other for other in self.nodes if other not in self.gone]
        self._add(rank, [*members, rank], joining=True)
        self._do(rank, self.nodes[rank].start())


def duration(scenario: Scenario, rank: int, draw: random.Random) -> float:
    """Seconds of an iteration of a node; equal in all compared methods."""
    pauses = scenario.pauses
    slowed = pauses.slow_factor if rank in pauses.slow else 1.0
    paused = pauses.factor if draw.random() < pauses.probability else 1.0
    return scenario.compute * max(slowed, paused)

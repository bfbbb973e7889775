"""One node of the protocol, without clock, network or arithmetic: inputs are calls, outputs are actions.

    node.start()                        -> actions
    node.iteration_finished(gradient)   -> actions
    node.receive(source, message)       -> actions
    node.expired(timer, generation)     -> actions
    node.lose(rank), node.leave()       -> actions

`order` is L of the document: the own gradients in the node's parameters. `finished` counts the iterations: one more
while the node waits at the bound with its last gradient in the queue. Other nodes use `finished`, so that always, over
all members,

    max(order) - min(finished) <= stale_max.

With 0 no node uses parameters before all have finished the order that made them: synchronous training.
"""

from collections.abc import Callable, Iterable
from typing import Any

from fanin_train.errors import TrainingError
from fanin_train.staleness.inbox import Inbox
from fanin_train.staleness.messages import (
    NEVER,
    Action,
    Adopt,
    Apply,
    Compute,
    Contribution,
    Done,
    Gradient,
    Join,
    Leave,
    Message,
    Rules,
    Send,
    Snapshot,
    Step,
    Timer,
    VectorClock,
    Welcome,
)
from fanin_train.staleness.synchronisation import Report, Synchronisation


class Node:
    """A node of a job.

    members: the ranks of all nodes, this one among them. content: makes a copy of parameters and optimiser state, for
    `Adopt` on another node. random: uniform in [0, 1). last: the order after which it computes no more. start: the
    order at which all begin, of a checkpoint. joining: the others are in training already; this node asks to take part.
    """

    def __init__(
        self,
        rank: int,
        members: Iterable[int],
        rules: Rules,
        content: Callable[[], Any],
        random: Callable[[], float],
        last: int | None = None,
        start: int = 0,
        joining: bool = False,
    ) -> None:
        everyone = set(members)
        if rank not in everyone:
            raise TrainingError(f"rank {rank} is not among the members {sorted(everyone)}", "name all members")
        if joining and not rules.clocks:
            raise TrainingError("the form of the document has no JOIN", "take the repaired form")
        self.rank, self.rules, self.last = rank, rules, last
        self.order = self.finished = self.global_order = start
        self.waiting = False  # at the bound
        self.joining = joining
        self.others = everyone - {rank}
        self.clocks = VectorClock(everyone)
        for each in everyone:
            self.clocks.advance(each, start)
        self.inbox = Inbox(2 * rules.stale_max + 4 if rules.commit else 0, start)
        self.memory: tuple[int, int, Snapshot | None] = (rank, start, None)  # M: G_M and its w, and who has told it
        self.synchronisation = Synchronisation(
            rank, self.others, rules, random, self._report, self._do, self._learn, self._look_again, self._is_waiting
        )
        self._content = content
        self._welcomes: dict[int, Welcome] = {}
        self._last_of: dict[int, int] = {}  # of those that are done
        self._actions: list[Action] = []

    # Inputs

    def start(self) -> list[Action]:
        """Begin: with the first iteration, or by asking to take part."""
        if self.joining:
            self._ask_to_join()
        else:
            self._compute()
        return self._collect()

    def iteration_finished(self, gradient: Any) -> list[Action]:
        """Steps C2 and C6: the gradient of the order that `Compute` named, divided by the number of nodes."""
        self.finished += 1
        self.clocks.advance(self.rank, self.finished)
        self.inbox.put(self.rank, self.finished, gradient)
        for other in sorted(self.others):
            self._do(Send(other, Gradient(self.finished, gradient)))
        self.waiting = True
        self._go_on()
        if self.waiting:
            self._wait_at_bound()
        return self._collect()

    def receive(self, source: int, message: Message) -> list[Action]:
        """Handle a message. Those of other nodes than members are dropped, except JOIN."""
        if isinstance(message, Join):
            self._receive_join(source)
        elif isinstance(message, Welcome):
            self._receive_welcome(source, message)
        elif source in self.others and (not self.joining or isinstance(message, Gradient)):
            self._receive_of_member(source, message)
        return self._collect()

    def expired(self, timer: Timer, generation: int) -> list[Action]:
        if self.synchronisation.is_current(timer, generation):
            if timer is Timer.JOIN:
                self._ask_to_join()
            elif timer is Timer.CLOCKS:
                if self.waiting:
                    self.synchronisation.begin()
            else:
                self.synchronisation.expired(timer)
        return self._collect()

    def lose(self, rank: int) -> list[Action]:
        """A node is dead or has left: the smallest order is now that of the others."""
        self._lose(rank)
        return self._collect()

    def leave(self) -> list[Action]:
        """Tell the others to wait for this node no longer."""
        for other in sorted(self.others):
            self._do(Send(other, Leave()))
        return self._collect()

    def finish(self) -> list[Action]:
        """Compute no more: this is the last order. Gradients of the others still go into the parameters."""
        if self.waiting:
            raise TrainingError("the node waits at the bound", "finish after the current iteration")
        self.last = self.order
        self._finish()
        return self._collect()

    def apply_up_to_now(self) -> list[Action]:
        """Put all gradients up to this node's order into the parameters, though early for fixed steps. All nodes do so
        at the same order, for a checkpoint."""
        first = self.order - self.rules.stale_max + 1 if self.rules.apply is Apply.FIXED else self.order
        for number in range(first, self.order + 1):
            self._step(number)
        return self._collect()

    def is_everything_here(self) -> bool:
        """Whether all nodes have finished this node's order, as far as it knows."""
        return self.clocks.minimum() >= self.order

    def are_all_done(self) -> bool:
        """Whether no other node will send a gradient."""
        return self.clocks.minimum_of_others(self.rank) == NEVER

    def _lose(self, rank: int) -> None:
        self.others.discard(rank)
        self.clocks.remove(rank)
        self._welcomes.pop(rank, None)
        self.synchronisation.lose(rank)
        if self.joining:
            self._take_part_if_welcome()
        else:
            self._look_again()

    # At the bound

    def is_within_bound(self) -> bool:
        """Whether one more order keeps to the bound: C4, otherwise C5."""
        return self.order - self.global_order < self.rules.stale_max

    def _go_on(self) -> None:
        """Step C4, if the node waits and may go on: apply what has arrived, and compute."""
        if self.rules.clocks:
            self.global_order = max(self.global_order, self.clocks.minimum())
        if not self.is_within_bound() and self.memory[1] > self.global_order:
            self._adopt_memory()
        if self.waiting and self.is_within_bound():
            self.waiting = False
            self.synchronisation.forget()
            self.order += 1
            self._step(self._horizon(self.order))
            self._compute()

    def _adopt_memory(self) -> None:
        """Step C5: the host memory has a later global order than the GPUs."""
        source, self.global_order, snapshot = self.memory
        self.clocks.advance(source, self.global_order)
        if snapshot is not None and source != self.rank and self.rules.apply is Apply.ARRIVED:
            lacking = self.inbox.adopt(snapshot.contains)
            self._do(Adopt(snapshot, lacking))

    def _wait_at_bound(self) -> None:
        if self.rules.clocks:
            self.synchronisation.set_timer(Timer.CLOCKS, self.rules.timeout)
        else:
            self.synchronisation.begin()

    def _look_again(self) -> None:
        if self.waiting:
            self._go_on()
        elif self._is_done():
            self._settle()

    def _is_waiting(self) -> bool:
        return self.waiting

    def _horizon(self, order: int) -> int:
        """The last number of the gradients for the parameters of an order."""
        stale_max = self.rules.stale_max
        return order + stale_max if self.rules.apply is Apply.ARRIVED else order - stale_max

    def _step(self, horizon: int) -> None:
        contributions = self.inbox.take(horizon)
        if contributions:
            self._do(Step(contributions))

    def _compute(self) -> None:
        if self._is_done():
            self._finish()
        else:
            self._do(Compute(self.order + 1, 1 + len(self.others)))

    def _is_done(self) -> bool:
        return self.last is not None and self.order >= self.last and not self.joining

    def _finish(self) -> None:
        for other in sorted(self.others):
            self._do(Send(other, Done(self.finished)))
        self._settle()

    def _settle(self) -> None:
        """After the last iteration: gradients of the others still go into the parameters."""
        assert self.last is not None
        if self.rules.apply is Apply.ARRIVED:
            self._step(NEVER)
            return
        complete = self.clocks.minimum_of_others(self.rank)
        for number in self.inbox.numbers():
            if number <= complete:
                self._step(number)

    # What others say

    def _receive_of_member(self, source: int, message: Message) -> None:
        if isinstance(message, Gradient):
            self.inbox.put(source, message.number, message.gradient)
            if not self.joining:
                if self.rules.clocks:
                    self.clocks.advance(source, message.number)
                self._look_whether_done(source)
                self._look_again()
        elif isinstance(message, Done):
            self._last_of[source] = message.last
            self._look_whether_done(source)
            self._look_again()
        elif isinstance(message, Leave):
            self._lose(source)
        elif not isinstance(message, Join | Welcome):
            self.synchronisation.receive(source, message)

    def _look_whether_done(self, source: int) -> None:
        """A message that overtakes others proves nothing about them."""
        last = self._last_of.get(source)
        if self.rules.clocks and last is not None and self.inbox.has_all(source, last):
            self.clocks.advance(source, NEVER)

    def _learn(self, source: int, global_order: int, snapshot: Snapshot) -> None:
        """The end of a synchronisation: M takes a later global order."""
        if global_order > self.memory[1]:
            self.memory = (source, global_order, snapshot)
        self._look_again()

    def _report(self) -> Report:
        return Report(self.finished, self._snapshot())

    def _snapshot(self) -> Snapshot:
        return Snapshot(self._content(), self.inbox.applied())

    # Joining

    def _ask_to_join(self) -> None:
        self.synchronisation.set_timer(Timer.JOIN, self.rules.timeout)
        for other in sorted(self.others - self._welcomes.keys()):
            self._do(Send(other, Join()))
        self._take_part_if_welcome()

    def _receive_join(self, source: int) -> None:
        """From now on this node waits for the one that joins, at the current global order."""
        if self.joining:
            return
        self.others.add(source)
        self.clocks.add(source, self.global_order)
        welcome = Welcome(self.finished, self.global_order, self._snapshot(), self.inbox.latest(self.rank))
        self._do(Send(source, welcome))

    def _receive_welcome(self, source: int, welcome: Welcome) -> None:
        if self.joining and source in self.others:
            self._welcomes.setdefault(source, welcome)
            self._take_part_if_welcome()

    def _take_part_if_welcome(self) -> None:
        """Begin at the latest order that a member waits for, so that no member is too far ahead."""
        if not self.joining or not self.others <= self._welcomes.keys():
            return
        self.joining = False
        welcomes = [self._welcomes[rank] for rank in sorted(self._welcomes)]
        if welcomes:
            self.order = self.finished = self.global_order = max(each.global_order for each in welcomes)
            self.clocks.advance(self.rank, self.order)
            for rank, each in self._welcomes.items():
                self.clocks.advance(rank, each.finished)
            latest: list[Contribution] = [row for each in welcomes for row in each.latest]
            snapshot = welcomes[0].snapshot
            lacking = self.inbox.adopt(snapshot.contains, latest)
            self._do(Adopt(snapshot, lacking))
        self._compute()

    # Actions

    def _do(self, action: Action) -> None:
        self._actions.append(action)

    def _collect(self) -> list[Action]:
        actions, self._actions = self._actions, []
        return actions

"""Training over a fabric with bounded staleness: the entry for programs of numpy.

    trainer = BoundedStaleness(communicator, parameters, SGD(0.1), stale_max=4)
    for batch in batches:
        trainer.step(gradient(parameters, batch))
    trainer.finish()

The ranks of a node sum their gradients by its NIC. The first of them, the leader, has the parameters and the optimiser,
acts for the node, and gives the parameters to the others.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable
from types import TracebackType
from typing import NamedTuple, Self

import numpy as np

import fanin
from fanin.errors import PeerLost
from fanin_train.errors import TrainingError
from fanin_train.staleness.messages import Action, Apply, Compute, Done, Gradient, Step, streaming
from fanin_train.staleness.node import Node
from fanin_train.staleness.replica import Checkpoint, Content, Optimiser, Replica
from fanin_train.staleness.streams import DONE, HEADER, Streams
from fanin_train.transfer import share

log = logging.getLogger("fanin")


class Traffic(NamedTuple):
    """Bytes of data of one node in one step. `sent`: one copy, which switches multiply; `without_switch`: copies for
    all other nodes; `ring`: sent, and received, by an allreduce in a ring."""

    sent: int
    received: int
    without_switch: int
    ring: int


class BoundedStaleness:
    """One rank's part in the training. All ranks of the job make one, and step as often.

    parameters: of shape (count,), floats; those of rank 0 are the start of all; changed in place by `step`.
    optimiser: of this rank. stale_max: steps that a node may be ahead of the slowest; 0 is synchronous training.
    apply: "arrived", or "fixed" for equal bits on all nodes and in every run. checkpoint: to go on from; all ranks have
    the same. survive: when a node is lost the others go on without it; otherwise PeerLost is raised. joins: this rank
    is new in a running training, whose ranks call `admit` meanwhile; it takes no checkpoint.

    Raises TrainingError for invalid arguments, and the errors of fanin.
    """

    def __init__(
        self,
        communicator: fanin.Communicator,
        parameters: np.ndarray,
        optimiser: Optimiser,
        stale_max: int = 4,
        apply: str = "arrived",
        checkpoint: Checkpoint | None = None,
        survive: bool = False,
        joins: bool = False,
    ) -> None:
        if apply not in tuple(Apply):
            raise TrainingError(f"apply is {apply!r}", f"give {' or '.join(map(repr, map(str, Apply)))}")
        if joins and checkpoint is not None:
            raise TrainingError("a rank that joins has a checkpoint", "leave it out: the others give it the state")
        self.rules = streaming(stale_max, Apply(apply))
        self.replica = Replica(parameters, optimiser)
        self.order = 0 if checkpoint is None else checkpoint.order
        if checkpoint is not None:
            self._load(checkpoint)
        self.waited = 0.0  # seconds at the bound
        self.steps_at_bound = 0
        self._survive = survive
        self._begin(communicator, joins)

    def _begin(self, communicator: fanin.Communicator, joins: bool) -> None:
        """Take part in a job. Its old ranks have done equally many steps; new ones get the order, the parameters and
        the optimiser of the first old one."""
        own = [-1 if joins else self.order, self.rules.stale_max, list(Apply).index(self.rules.apply)]
        said = communicator.allgather(np.array(own, np.int64))
        for rank, (_, stale_max, apply) in enumerate(said.tolist()):
            if [stale_max, apply] != own[1:]:
                raise TrainingError(
                    f"rank {rank} has stale_max {stale_max} and apply {str(list(Apply)[apply])!r}, this one "
                    f"{self.rules.stale_max} and {str(self.rules.apply)!r}",
                    "give all ranks the same",
                )
        orders = said[:, 0]
        source = int(orders.argmax())
        if orders[source] < 0:
            raise TrainingError("all ranks join, and none is in the training", "leave joins out on those that begin it")
        self.order = int(orders[source])
        content: Content = share(communicator, source, self.replica.content())
        self._require_same(content.parameters, f"rank {source} has")
        self.replica.adopt(content, [])
        places = communicator.allgather(np.array(communicator.job.node_of(communicator.rank)))
        self._group = communicator.split(int(places[communicator.rank]))  # by the local route
        assert self._group is not None
        self._leaders = communicator.split(0 if self._group.rank == 0 else None)
        self._total: np.ndarray | None = None
        if self._leaders is not None:
            self.rank, ranks = self._leaders.rank, range(self._leaders.size)
            self._members = list(ranks)  # rank in the current streams -> rank at the start
            self.node = Node(self.rank, ranks, self.rules, self.replica.content, lambda: 0.0, start=self.order)
            self._received = dict.fromkeys(ranks, self.order)
            self._streams = self._new_streams([self.order] * len(self._members))
            self._obey(self.node.start())
            self._streams.accept(self.order)

    def _load(self, checkpoint: Checkpoint) -> None:
        self._require_same(checkpoint.parameters, "the checkpoint has")
        self.replica.adopt(Content(checkpoint.parameters, checkpoint.optimiser), [])

    def _require_same(self, parameters: np.ndarray, who: str) -> None:
        own = self.replica.parameters
        if (parameters.shape, parameters.dtype) != (own.shape, own.dtype):
            raise TrainingError(
                f"{who} {parameters.size} parameters of {parameters.dtype}, not {own.size} of {own.dtype}",
                "give the same model",
            )

    def _new_streams(self, base: list[int]) -> Streams:
        assert self._leaders is not None
        parameters = self.replica.parameters
        return Streams(self._leaders, parameters.size, parameters.dtype, self.rules.stale_max, tuple(base))

    @property
    def leads(self) -> bool:
        """Whether this rank acts for its node."""
        return self._leaders is not None

    # One step

    def step(self, gradient: np.ndarray) -> None:
        """Contribute this rank's gradient of shape (count,), the mean over its batch. Returns when the next one may be
        computed, from the parameters as they then are."""
        if gradient.shape != self.replica.parameters.shape:
            raise TrainingError(
                f"the gradient has shape {gradient.shape}, the parameters {self.replica.parameters.shape}",
                "give one flat gradient of all parameters",
            )
        total = self._sum_of_node(gradient)
        self.order += 1
        if self._leaders is not None:
            self._surviving(lambda: self._lead(total))
        self._give_to_node()

    def _sum_of_node(self, gradient: np.ndarray) -> np.ndarray:
        """The mean over the ranks of this node, at its leader."""
        assert self._group is not None
        if self._group.size == 1:
            return gradient
        if self._total is None:
            self._total = self._group.alloc(gradient.shape, self.replica.parameters.dtype)
        self._total[:] = gradient
        self._group.reduce(self._total, out=self._total, op="mean", root=0)
        return self._total

    def _give_to_node(self) -> None:
        assert self._group is not None
        if self._group.size > 1:
            self._group.broadcast(self.replica.parameters, root=0)

    def _lead(self, total: np.ndarray) -> None:
        if self.node.finished < self.order:  # else it has been sent, and a node was lost while this one waited
            room = self._streams.room(self.order)
            np.divide(total, room.dtype.type(1 + len(self.node.others)), out=room)
            self._streams.accept(self.order)
            self._take_arrivals()
            self._streams.send(self.order)
            self._obey(self.node.iteration_finished(room))
        if self.node.waiting:
            self.steps_at_bound += 1
            begin = time.monotonic()
            while self.node.waiting:
                self._take_arrivals(self._slowest())
            self.waited += time.monotonic() - begin
        self._take_arrivals()

    def _slowest(self) -> int:
        """A node of the streams for which all wait."""
        entries = self.node.clocks.entries()
        own = self._members[self.rank]
        return self._members.index(min((each for each in entries if each != own), key=entries.__getitem__))

    def _take_arrivals(self, wait_for: int | None = None) -> None:
        for source, number, gradient in self._streams.arrivals(wait_for):
            member = self._members[source]
            message: Gradient | Done = Done(number - 1)
            if gradient is not None:
                self._received[member] = max(number, self._received[member])  # it may come again after a loss
                message = Gradient(number, gradient)
            self._obey(self.node.receive(member, message))

    def _obey(self, actions: list[Action]) -> None:
        """Streams send; timers are of no use where nothing is lost; the program computes."""
        for action in actions:
            if isinstance(action, Step):
                self.replica.step(action.contributions)
            elif isinstance(action, Compute):
                assert action.number == self.node.order + 1

    # The end, and checkpoints

    def finish(self) -> None:
        """Call after the last step: wait for all gradients, and give all ranks the parameters of the first."""
        if self._leaders is not None:
            self._surviving(self._finish)
            self._leaders.broadcast(self.replica.parameters, root=0)
        self._give_to_node()
        self.close()

    def _finish(self) -> None:
        if self.node.last is None:
            self._obey(self.node.finish())
        if self._streams.sent <= self.order:
            self._streams.send(self.order + 1, DONE)
        self._streams.accept(None)
        while not self.node.are_all_done():
            self._take_arrivals(self._slowest())

    def checkpoint(self) -> Checkpoint | None:
        """The checkpoint on every leader. All ranks call it after the same step; it waits for gradients up to this
        step. All are equal but for rounding, with fixed steps to the last bit."""
        made = None
        if self._leaders is not None:
            self._surviving(self._come_together)
            clock = self.node.clocks.entries()
            content = self.replica.content()
            made = Checkpoint(self.order, content.parameters, content.optimiser, clock)
        self._give_to_node()
        return made

    def _come_together(self) -> None:
        while not self.node.is_everything_here():
            self._take_arrivals(self._slowest())
        self._obey(self.node.apply_up_to_now())
        assert self._leaders is not None
        self._leaders.barrier()  # so that no rank has a gradient of a later step

    def admit(self, communicator: fanin.Communicator) -> None:
        """Go on in a job with more ranks, from Communicator.grow. All ranks call it after the same step, and wait for
        each other; the new ones make a BoundedStaleness that joins. From then on the mean is over all nodes."""
        self.checkpoint()
        self._total = None
        assert self._group is not None
        if self._leaders is not None:
            self._streams.drain()
            self._leaders.barrier()  # only requests for gradients that never come are under way
            self._streams.abort()
            self._leaders.close()
        self._group.close()
        self._begin(communicator, joins=False)

    def traffic(self) -> Traffic:
        size = self.replica.parameters.nbytes
        others = len(self.node.others) if self._leaders is not None else 0
        message = size + HEADER
        return Traffic(message, others * message, others * message, 2 * others * size // (others + 1))

    # When a node is lost

    def _surviving(self, part: Callable[[], None]) -> None:
        while True:
            try:
                part()
                return
            except PeerLost as error:
                if not self._survive:
                    raise
                log.warning("a node is lost (%s): the others go on", error)
                self._go_on_without()

    def _go_on_without(self) -> None:
        """New streams for the survivors, from the last gradient that all have; duplicates are dropped."""
        assert self._leaders is not None
        with contextlib.suppress(PeerLost):
            self._take_arrivals()
        self._streams.abort()
        before, self._leaders = self._leaders, self._leaders.shrink()
        before.close()
        count = len(self._received)
        mine = np.array([self._received.get(rank, -1) for rank in range(count)] + [self._members[self.rank]], np.int64)
        mine[mine[-1]] = self.node.finished
        rows = self._leaders.allgather(mine)
        self._members, self.rank = rows[:, -1].tolist(), self._leaders.rank
        for lost in self.node.others - set(self._members):
            self._obey(self.node.lose(lost))
        base = [int(rows[:, member].min()) for member in self._members]
        kept, self._streams = self._streams, self._new_streams(base)
        self._streams.accept(self.node.finished if self.node.last is None else None)
        for number in range(base[self.rank] + 1, self.node.finished + 1):
            self._streams.room(number)[:] = kept.own_gradient(number)
            self._streams.send(number)
        if self.node.last is not None:
            self._streams.send(self.node.finished + 1, DONE)

    def close(self) -> None:
        """Leave when the others have this rank's messages."""
        assert self._group is not None
        if self._leaders is not None:
            self._streams.close()
            self._leaders.close()
        self._group.close()

    def abort(self) -> None:
        """Leave at once: the others get PeerLost."""
        assert self._group is not None
        if self._leaders is not None:
            self._streams.abort()
            self._leaders.abort()
        self._group.abort()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            self.finish()
        else:
            self.abort()

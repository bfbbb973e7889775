"""What nodes say to each other. A step is one of founding document 003."""

from collections.abc import Mapping
from typing import Any, NamedTuple


class Epoch(NamedTuple):
    """Names one synchronisation: the number at its initiator, and the initiator's rank."""

    number: int
    initiator: int


class Version(NamedTuple):
    """Which gradients of a node some parameters contain: all up to `last` but the `missing`."""

    last: int = 0
    missing: frozenset[int] = frozenset()

    def includes(self, number: int) -> bool:
        return number <= self.last and number not in self.missing


class Snapshot(NamedTuple):
    """Parameters of a node and the optimiser's state, as its driver makes them, and their content, by rank."""

    content: Any
    contains: Mapping[int, Version]


class Contribution(NamedTuple):
    """A gradient: its node and order."""

    number: int  # before the rank: the order of steps is that of these tuples
    rank: int
    gradient: Any


class Gradient(NamedTuple):
    """Step C6, to all: the gradient of an iteration. Its number is the sender's order: what it has finished."""

    number: int
    gradient: Any


class Request(NamedTuple):
    """Step a3, to all: this node begins a synchronisation."""

    epoch: Epoch
    finished: int
    snapshot: Snapshot


class Reply(NamedTuple):
    """Step a4, to the initiator: this node takes part."""

    epoch: Epoch
    finished: int
    snapshot: Snapshot


class Refusal(NamedTuple):
    """Step a4, to the initiator: this node is in another one."""

    epoch: Epoch


class Abort(NamedTuple):
    """Not in the document. To all: the initiator has given up."""

    epoch: Epoch


class Commit(NamedTuple):
    """Not in the document. To all: the initiator is done; the slowest node, its order and its parameters."""

    epoch: Epoch
    slowest: int
    global_order: int
    snapshot: Snapshot


class Join(NamedTuple):
    """Not in the document. To all: this node wants to take part."""


class Welcome(NamedTuple):
    """Not in the document. To a node that joins: the sender's finished order, its global order, its parameters, and its
    latest gradients, which the parameters of others may lack."""

    finished: int
    global_order: int
    snapshot: Snapshot
    latest: tuple[Contribution, ...]


class Done(NamedTuple):
    """Not in the document. To all: the sender computes no more, but counts in the mean. Nobody waits for it once all
    its gradients have arrived."""

    last: int  # number of its last gradient


class Leave(NamedTuple):
    """Not in the document. To all: wait for this node no longer."""


Message = Gradient | Request | Reply | Refusal | Abort | Commit | Join | Welcome | Done | Leave

"""What the nodes of the protocol share: rules, messages, actions, vector clocks. A step is one of document 003."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, NamedTuple

from fanin_train.errors import TrainingError

NEVER = 1 << 62  # the order of a node for which nobody waits


# Rules: the form of the protocol that a node follows, as in the document or repaired


class Apply(StrEnum):
    """The gradients in a step of the optimiser."""

    ARRIVED = "arrived"  # all that have arrived: the freshest parameters, which depend on the network
    FIXED = "fixed"  # those that are `stale_max` orders old: equal bits on all nodes and in every run


@dataclass(frozen=True)
class Rules:
    """One form of the protocol. Times are in seconds.

    stale_max: orders by which a node may be ahead of the slowest; 0 is synchronous training.
    retry: T of step a5, the pause after a refusal. timeout: of the timer of step a1.
    jitter: the pause is drawn from half of `retry` to one and a half.
    initiator_refuses: a node that has begun a synchronisation refuses others.
    abort: an initiator that gives up sends ABORT.
    commit: an initiator that is done sends COMMIT, with the result. priority: the lower rank wins.
    epochs: messages of an earlier synchronisation are recognised, and the initiator has a timer.
    clocks: the order of a gradient moves the global order; a synchronisation begins only if none comes.
    """

    stale_max: int
    retry: float = 0.1
    timeout: float = 1.0
    apply: Apply = Apply.ARRIVED
    jitter: bool = False
    initiator_refuses: bool = False
    abort: bool = False
    commit: bool = False
    priority: bool = False
    epochs: bool = False
    clocks: bool = False

    def __post_init__(self) -> None:
        if self.stale_max < 0:
            raise TrainingError(f"stale_max is {self.stale_max}", "give 0 for synchronous training, or more")
        if self.apply is Apply.FIXED and not self.clocks:
            raise TrainingError("fixed steps need the clocks of the gradients", "take the repaired form")


def literal(stale_max: int) -> Rules:
    """The document as it is written."""
    return Rules(stale_max)


def repaired(stale_max: int, apply: Apply = Apply.ARRIVED) -> Rules:
    """Priority, ABORT, COMMIT, epochs, and clocks in the gradients."""
    return replace(by_synchronisation(stale_max), clocks=True, apply=apply)


def by_synchronisation(stale_max: int) -> Rules:
    """The repaired form without clocks: each wait at the bound is a synchronisation."""
    return Rules(stale_max, jitter=True, initiator_refuses=True, abort=True, commit=True, priority=True, epochs=True)


def streaming(stale_max: int, apply: Apply = Apply.ARRIVED) -> Rules:
    """The repaired form over links that lose nothing: clocks suffice."""
    return Rules(stale_max, clocks=True, apply=apply)


def forms(stale_max: int) -> dict[str, Rules]:
    """The forms that `fanin train-sim --forms` compares, from the text to the repaired one."""
    text = literal(stale_max)
    refusing = replace(text, initiator_refuses=True)
    return {
        "as written": text,
        "an initiator refuses": refusing,
        "and says ABORT": replace(refusing, abort=True, epochs=True),
        "a jitter alone": replace(refusing, jitter=True),
        "jitter, ABORT, COMMIT": replace(refusing, jitter=True, abort=True, commit=True, epochs=True),
        "lowest rank, ABORT, COMMIT": by_synchronisation(stale_max),
        "clocks in the gradients": repaired(stale_max),
    }


# Messages


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


# Actions: what a node asks its driver to do, in this order


class Timer(StrEnum):
    """The timers of a node."""

    SERVING = "serving"  # step a1: the synchronisation of another has lasted too long
    REPLIES = "replies"  # the repaired form: an initiator still lacks replies
    RETRY = "retry"  # step a5: the pause after a refusal
    CLOCKS = "clocks"  # no gradient has moved the global order
    JOIN = "join"  # a node that joins still lacks a welcome


class Send(NamedTuple):
    to: int
    message: Message


class SetTimer(NamedTuple):
    """Call `expired(timer, generation)` after `delay` seconds."""

    timer: Timer
    generation: int
    delay: float


class Step(NamedTuple):
    """One step of the optimiser with the sum of these gradients, in this order."""

    contributions: tuple[Contribution, ...]


class Adopt(NamedTuple):
    """Replace parameters and optimiser state by a snapshot, then step with the gradients that it lacks."""

    snapshot: Snapshot
    contributions: tuple[Contribution, ...]


class Compute(NamedTuple):
    """Compute the gradient of this order, divide it by the number of nodes, and call `iteration_finished` with it.

    The sender divides, so that all nodes apply the same gradient, whoever has noticed a death.
    """

    number: int
    nodes: int


Action = Send | SetTimer | Step | Adopt | Compute


# The vector clock


class VectorClock:
    """The last order that each member has finished. An entry never goes back."""

    def __init__(self, ranks: Iterable[int]) -> None:
        self._entries = dict.fromkeys(ranks, 0)

    def advance(self, rank: int, order: int) -> None:
        """A member has finished `order`. Other nodes are ignored."""
        if self._entries.get(rank, order) < order:
            self._entries[rank] = order

    def add(self, rank: int, order: int) -> None:
        """Add a member, unless it is one."""
        self._entries.setdefault(rank, order)

    def remove(self, rank: int) -> None:
        self._entries.pop(rank, None)

    def minimum(self) -> int:
        """The order that all members have finished."""
        return min(self._entries.values())

    def minimum_of_others(self, rank: int) -> int:
        """The order that all other members have finished; NEVER if there is no other."""
        return min((order for each, order in self._entries.items() if each != rank), default=NEVER)

    def entries(self) -> dict[int, int]:
        """A copy, by rank."""
        return dict(sorted(self._entries.items()))

    def __contains__(self, rank: int) -> bool:
        return rank in self._entries

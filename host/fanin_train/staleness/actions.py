"""What a node asks its driver to do, in this order."""

from enum import StrEnum
from typing import NamedTuple

from fanin_train.staleness.messages import Contribution, Message, Snapshot


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

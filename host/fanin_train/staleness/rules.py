"""The form of the protocol that a node follows: as in the document, or repaired."""

from dataclasses import dataclass, replace
from enum import StrEnum

from fanin_train.errors import TrainingError


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

"""Which idle node takes the place of a failed one: F9 to F11, and several failures one by one."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from fanin_train.errors import TrainingError
from fanin_train.replacement.bandwidth import Bandwidths
from fanin_train.replacement.cost import Estimate, Options, estimates
from fanin_train.replacement.records import Monitor


class NotFailed(TrainingError):
    """A node to be replaced that lives or runs nothing."""

    def __init__(self, address: str, why: str) -> None:
        super().__init__(f"NOT_FAILED: node {address} {why}", "name dead nodes of a task")


class RingLost(TrainingError):
    """No node of the ring lives: the state of the training is lost."""

    def __init__(self, task: str) -> None:
        super().__init__(f"RING_LOST: no node of task {task} lives", "start the task again from a checkpoint")


class Rule(StrEnum):
    LEAST_PEAK = "least peak of those not slower than T_avg"  # [133]
    LEAST_TIME = "least time"  # [136]
    NONE = "no candidate"  # [137]


@dataclass(frozen=True)
class Choice:
    """The decision about a failed node. replacement: None if there is none. average: T_avg, in seconds."""

    failed: str
    task: str
    rule: Rule
    average: float
    estimates: tuple[Estimate, ...]
    replacement: str | None = None


def rank(found: Iterable[Estimate]) -> list[Estimate]:
    """By time, the longest first [132]; equal ones by address."""
    return sorted(found, key=lambda each: (-each.time, each.node.address))


def select(found: Iterable[Estimate], average: float) -> tuple[Rule, Estimate | None]:
    """F9 to F11. Ties go to the shorter time, then to the first address."""
    found = list(found)
    if not found:
        return Rule.NONE, None
    fast_enough = [each for each in found if each.time <= average]
    if fast_enough:
        return Rule.LEAST_PEAK, min(fast_enough, key=lambda each: (each.node.peak, each.time, each.node.address))
    return Rule.LEAST_TIME, min(found, key=lambda each: (each.time, each.node.address))


def neighbours_of(monitor: Monitor, task: str, failed: str) -> tuple[str, str]:
    """The previous and the next live node of the ring; they may be the same. RingLost if none lives."""
    ring = monitor.task(task).ring
    at = ring.index(failed)
    others = [address for address in (*ring[at + 1 :], *ring[:at]) if monitor.node(address).alive]
    if not others:
        raise RingLost(task)
    return others[-1], others[0]


def choose(monitor: Monitor, bandwidths: Bandwidths, failed: str, options: Options | None = None) -> Choice:
    """Decide about a failed node; changes nothing. NotFailed, RingLost, UnknownBandwidth."""
    options = options or Options()
    node = monitor.node(failed)
    if node.alive or node.task is None:
        raise NotFailed(failed, "lives" if node.alive else "runs no task")
    task = monitor.task(node.task)
    neighbours = neighbours_of(monitor, task.id, failed)
    average = monitor.average_time(task.id, () if options.with_failed else monitor.failed(task.id))
    found = estimates(monitor, bandwidths, task, neighbours, monitor.candidates(), options)
    rule, chosen = select(found, average)
    return Choice(failed, task.id, rule, average, tuple(rank(found)), chosen.node.address if chosen else None)


def apply(monitor: Monitor, choice: Choice, options: Options | None = None) -> None:
    """Deploy a choice [78] to [80]: the replacement gets the failed position, or the ring does without it."""
    options = options or Options()
    task = monitor.task(choice.task)
    if choice.replacement is not None:
        ring = tuple(choice.replacement if address == choice.failed else address for address in task.ring)
        monitor.change(choice.replacement, task=task.id, step_times=())
    elif options.without_candidate == "rebuild":
        ring = tuple(address for address in task.ring if address != choice.failed)
    else:
        return
    monitor.tasks[task.id] = replace(task, ring=ring)
    monitor.change(choice.failed, task=None)


def replace_all(
    monitor: Monitor, bandwidths: Bandwidths, failed: Iterable[str], options: Options | None = None
) -> list[Choice]:
    """Replace failed nodes one by one, in this order [139] to [141]. A replacement is a neighbour of the next."""
    choices = []
    for address in failed:
        choice = choose(monitor, bandwidths, address, options)
        apply(monitor, choice, options)
        choices.append(choice)
    return choices

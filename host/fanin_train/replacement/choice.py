"""Which idle node takes the place of a failed one, by the time of an iteration with it (F1 to F11):
t = t_comm + t_comp [124] [127]."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Literal

from fanin_train.errors import TrainingError
from fanin_train.replacement.records import Bandwidths, Monitor, Node, Task


@dataclass(frozen=True)
class Options:
    """Choices that the text leaves open, or describes in two ways.

    cost: "text": a node sends W to the next one [117]; "ring": 2 (n - 1) / n times as much, as ring allreduce does
    key: of compute times: "type" of the candidate [130], or the "task" alone [118], which is equal for all candidates
    scaled: S / FLOP/s is divided by the utilisation of measured types, which the text ignores
    with_failed: whether the step times of the failed node count in T_avg
    without_candidate: "null": wait [137]; "rebuild": drop the node from the ring [80]
    """

    cost: Literal["text", "ring"] = "ring"
    key: Literal["type", "task"] = "type"
    scaled: bool = True
    with_failed: bool = False
    without_candidate: Literal["null", "rebuild"] = "rebuild"


LITERAL = Options(cost="text", scaled=False, with_failed=True, without_candidate="null")  # as the text says


@dataclass(frozen=True)
class Estimate:
    """The predicted iteration of a candidate, in seconds."""

    node: Node
    communication: float
    computation: float

    @property
    def time(self) -> float:
        return self.communication + self.computation


def communication_time(task: Task, up: float, down: float, options: Options) -> float:
    """t_comm in seconds [117] [129].

    Args:
        task: of the failed node, whose W counts [106] [109].
        up: bytes per second from the previous neighbour.
        down: the same to the next one.
        options: `cost` counts.
    """
    nodes = len(task.ring)
    size = task.bytes * (2 * (nodes - 1) / nodes if options.cost == "ring" else 1.0)
    slower = min(up, down)
    return size / slower if slower > 0 else math.inf if size else 0.0


def utilisation(monitor: Monitor, task: Task) -> float:
    """The mean share of the peak on the types that were measured with the task; 1 if there are none."""
    peaks = {node.type: node.peak for node in monitor.nodes.values()}
    found = [
        task.flop / peaks[kind] * len(times) / sum(times)
        for (identifier, kind), times in monitor.compute_times.items()
        if identifier == task.id and kind in peaks and task.flop
    ]
    return sum(found) / len(found) if found else 1.0


def computation_time(monitor: Monitor, task: Task, candidate: Node, options: Options) -> float:
    """t_comp in seconds: the measured time, else S / FLOP/s [119] to [122] [130] [131]."""
    times = [
        time
        for (identifier, kind), measured in monitor.compute_times.items()
        if identifier == task.id and (options.key == "task" or kind == candidate.type)
        for time in measured
    ]
    if times:
        return sum(times) / len(times)
    return task.flop / candidate.peak / (utilisation(monitor, task) if options.scaled else 1.0)


def estimates(
    monitor: Monitor,
    bandwidths: Bandwidths,
    task: Task,
    neighbours: tuple[str, str],
    candidates: Iterable[Node],
    options: Options,
) -> list[Estimate]:
    """The estimates of the candidates that reach both neighbours, the previous and the next one."""
    previous, following = neighbours
    found = [
        Estimate(
            node,
            communication_time(
                task, bandwidths.between(previous, node.address), bandwidths.between(node.address, following), options
            ),
            computation_time(monitor, task, node, options),
        )
        for node in candidates
    ]
    return [each for each in found if math.isfinite(each.time)]


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

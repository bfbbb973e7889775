"""The time of an iteration with a candidate in the place of a failed node: t = t_comm + t_comp [124] [127]."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from fanin_train.replacement.bandwidth import Bandwidths
from fanin_train.replacement.records import Monitor, Node, Task


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

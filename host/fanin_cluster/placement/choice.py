"""The class that a new job is given, in the three readings of founding document 002.

A state says how many pairs of each class are free on each node. A node *recommends* the class with the most free pairs;
"otherwise" in [42] means the last of equal ones. The readings score a class by

| reading | score | source |
| --- | --- | --- |
| total | its free pairs on all nodes | claim 1, [26] |
| recommended | its free pairs on the nodes that recommend it | claim 2, [5] |
| votes | the nodes that recommend it | [42] |

The largest score wins; "either" may win if scores are equal. No reading asks whether the job fits. `choose` does: the
class must hold all workers of the job. Of equal scores the class wins that the job fills best, then the first.
Record 0085 (docs/decisions) says why `total` is the default.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from fanin_cluster.placement.classes import PlacementInvalid

State = Sequence[Sequence[int]]  # [node][class]: free pairs


class Reading(StrEnum):
    TOTAL = "total"
    RECOMMENDED = "recommended"
    VOTES = "votes"


DEFAULT = Reading.TOTAL


@dataclass(frozen=True)
class Job:
    """Workers of equal size. `spread`: each on a node of its own."""

    workers: int
    gpus: int  # of each worker
    spread: bool = False


@dataclass(frozen=True)
class Choice:
    """A class, and where the workers go.

    workers: how many on each node
    scores: of all classes
    feasible: the classes that hold the job
    """

    resource_class: int
    workers: tuple[int, ...]
    scores: tuple[int, ...]
    feasible: tuple[int, ...]


def recommended(free: Sequence[int]) -> int:
    """The class that a node recommends: the last of those with most free pairs."""
    return max(range(len(free)), key=lambda each: (free[each], each))


def scores(state: State, reading: Reading) -> tuple[int, ...]:
    """The score of each class."""
    classes = range(len(state[0]))
    if reading is Reading.TOTAL:
        return tuple(sum(free[each] for free in state) for each in classes)
    votes = [recommended(free) for free in state]
    if reading is Reading.VOTES:
        return tuple(votes.count(each) for each in classes)
    return tuple(sum(free[each] for free, vote in zip(state, votes, strict=True) if vote == each) for each in classes)


def winners(state: State, reading: Reading) -> frozenset[int]:
    """The classes with the largest score: more than one means "either"."""
    found = scores(state, reading)
    return frozenset(each for each, score in enumerate(found) if score == max(found))


def fit(free: Sequence[int], job: Job) -> tuple[int, ...] | None:
    """Workers for each node, from the free pairs of one class on each; None if the job does not fit.

    Nodes that would have the fewest free pairs left come first: whole nodes stay free for larger workers.
    """
    left = job.workers
    given = [0] * len(free)
    for node in sorted(range(len(free)), key=lambda each: (free[each] % job.gpus, free[each])):
        room = free[node] // job.gpus
        given[node] = min(left, room, 1) if job.spread else min(left, room)
        left -= given[node]
    return tuple(given) if left == 0 else None


def pieces_left(free: Sequence[int], workers: Sequence[int], job: Job) -> int:
    """Free pairs that the job leaves on the nodes that it uses, too few for a whole node."""
    return sum(each - count * job.gpus for each, count in zip(free, workers, strict=True) if count)


def choose(state: State, job: Job, reading: Reading = DEFAULT) -> Choice | None:
    """The class for a job, of those that hold it; None if none does. PlacementInvalid for a wrong state or job."""
    if job.workers < 1 or job.gpus < 1:
        raise PlacementInvalid(f"a job of {job.workers} workers with {job.gpus} GPUs", "give at least one of each")
    if not state or len({len(free) for free in state}) > 1 or not state[0]:
        raise PlacementInvalid("nodes have different numbers of classes, or none", "give 0 for a class that is lacking")
    if any(each < 0 for free in state for each in free):
        raise PlacementInvalid("a number of free pairs is negative", "give whole numbers from 0 on")
    score = scores(state, reading)
    fits = {}
    for each in range(len(score)):
        free = [node[each] for node in state]
        workers = fit(free, job)
        if workers is not None:
            fits[each] = workers, pieces_left(free, workers, job)
    if not fits:
        return None
    best = min(fits, key=lambda each: (-score[each], fits[each][1], each))
    return Choice(best, fits[best][0], score, tuple(fits))

"""Jobs that come and go under each reading: `python -m fanin_cluster.placement.simulation`.

As in the document, a job gets its class when it is created, and waits in the queue of that class until its pairs are
free: a bad choice costs time. Time is in units of the mean run time of a job.
"""

import heapq
import random
from dataclasses import dataclass

from fanin_cluster.placement.choice import Job, Reading, choose, fit, scores

SHAPES = ((1, 1), (1, 2), (1, 4), (2, 2), (2, 4), (4, 4))  # workers x GPUs


@dataclass(frozen=True)
class Outcome:
    """Of all jobs: the share that starts at once, and the mean wait."""

    at_once: float
    wait: float


def simulate(reading: Reading, feasible: bool, jobs: int, seed: int, nodes: int = 8, load: float = 0.7) -> Outcome:
    """Run jobs on `nodes` nodes with two classes of 4 pairs.

    Args:
        feasible: prefer a class that holds the job (`choose`); else the largest score decides, the first if equal.
        load: the share of all pairs that the jobs need on average.
    """
    chance = random.Random(seed)
    free = [[4, 4] for _ in range(nodes)]
    mean = sum(workers * gpus for workers, gpus in SHAPES) / len(SHAPES)
    rate = load * nodes * 8 / mean
    now, waits = 0.0, []
    ends: list[tuple[float, int, int, tuple[int, ...], Job]] = []
    queues: tuple[list[tuple[float, float, Job]], ...] = ([], [])

    def start(each: int, came: float, length: float, job: Job) -> bool:
        workers = fit([node[each] for node in free], job)
        if workers is None:
            return False
        for node, count in zip(free, workers, strict=True):
            node[each] -= count * job.gpus
        waits.append(now - came)
        heapq.heappush(ends, (now + length, len(waits), each, workers, job))
        return True

    def end_one() -> None:
        nonlocal now
        now, _, each, workers, job = heapq.heappop(ends)
        for node, count in zip(free, workers, strict=True):
            node[each] += count * job.gpus
        while queues[each] and start(each, *queues[each][0]):
            queues[each].pop(0)

    for _ in range(jobs):
        arrival = now + chance.expovariate(rate)
        while ends and ends[0][0] <= arrival:
            end_one()
        now = arrival
        job = Job(*chance.choice(SHAPES))
        length = chance.expovariate(1.0)
        score = scores(free, reading)
        choice = choose(free, job, reading) if feasible else None
        each = choice.resource_class if choice else score.index(max(score))
        if queues[each] or not start(each, now, length, job):
            queues[each].append((now, length, job))
    while ends:
        end_one()
    return Outcome(sum(wait == 0 for wait in waits) / len(waits), sum(waits) / len(waits))


def table(jobs: int = 4000, seeds: int = 3) -> str:
    lines = ["| load | reading | asks whether the job fits | at once | mean wait |", "| --- | --- | --- | --- | --- |"]
    for load in (0.5, 0.7):
        for feasible in (False, True):
            for reading in Reading:
                found = [simulate(reading, feasible, jobs, seed, load=load) for seed in range(seeds)]
                at_once = sum(each.at_once for each in found) / seeds
                wait = sum(each.wait for each in found) / seeds
                lines.append(f"| {load} | {reading} | {'yes' if feasible else 'no'} | {at_once:.1%} | {wait:.3f} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(table(), end="")

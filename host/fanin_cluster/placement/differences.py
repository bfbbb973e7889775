"""Where the three readings of the choice differ: `python -m fanin_cluster.placement.differences [PAGE]`.

It enumerates all states of three nodes with two classes and 0 to 4 free pairs of each: 5^6 = 15,625. With the path of a
page it updates the table there.
"""

import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import product
from pathlib import Path

from fanin_cluster.placement.choice import Job, Reading, State, fit, winners

NODES, CLASSES, FREE = 3, 2, range(5)
BEGIN, END = "<!-- table: readings -->\n", "<!-- end of table -->\n"
NAMES = {frozenset({0}): "roce1", frozenset({1}): "roce2", frozenset({0, 1}): "either"}
EXAMPLE_JOB = Job(workers=3, gpus=2)


def states() -> Iterator[State]:
    for numbers in product(FREE, repeat=NODES * CLASSES):
        yield tuple(numbers[node * CLASSES : (node + 1) * CLASSES] for node in range(NODES))


@cache
def judged() -> tuple[tuple[State, tuple[frozenset[int], ...]], ...]:
    """Every small state, with its winners in the order of `Reading`."""
    return tuple((state, tuple(winners(state, reading) for reading in Reading)) for state in states())


def outcomes() -> dict[tuple[str, ...], tuple[int, State]]:
    """How many states have each triple of winners, in the order of `Reading`, and the first of them."""
    counts: Counter[tuple[str, ...]] = Counter()
    first: dict[tuple[str, ...], State] = {}
    for state, won in judged():
        outcome = tuple(NAMES[each] for each in won)
        counts[outcome] += 1
        first.setdefault(outcome, state)
    return {outcome: (count, first[outcome]) for outcome, count in counts.most_common()}


def misplaced(job: Job) -> dict[Reading, tuple[int, int]]:
    """For each reading: the states where a class holds the job but the winner does not, and those where one does.

    A tie counts as misplaced if any of the winners does not hold the job.
    """
    wrong: Counter[Reading] = Counter()
    possible = 0
    holds = {free: fit(free, job) is not None for free in product(FREE, repeat=NODES)}
    for state, won in judged():
        held = {each for each in range(CLASSES) if holds[tuple(free[each] for free in state)]}
        if held:
            possible += 1
            for reading, winning in zip(Reading, won, strict=True):
                wrong[reading] += not winning <= held
    return {reading: (wrong[reading], possible) for reading in Reading}


def table() -> str:
    found = outcomes()
    total = sum(count for count, _ in found.values())
    same = sum(count for outcome, (count, _) in found.items() if len(set(outcome)) == 1)
    lines = [
        f"Of {total} states the readings agree in {same} and differ in {total - same}.",
        "",
        "| job | states that hold it | total | recommended | votes |",
        "| --- | --- | --- | --- | --- |",
    ]
    for job in (Job(1, 4), Job(2, 2), EXAMPLE_JOB, Job(2, 4), Job(3, 1, spread=True)):
        wrong = misplaced(job)
        possible = wrong[Reading.TOTAL][1]
        spread = ", each on a node of its own" if job.spread else ""
        cells = " | ".join(f"{wrong[reading][0]} ({wrong[reading][0] / possible:.1%})" for reading in Reading)
        lines.append(f"| {job.workers} x {job.gpus} GPUs{spread} | {possible} | {cells} |")
    return "\n".join(lines) + "\n"


def with_table(page: str) -> str:
    """A page with its table updated."""
    before, _, rest = page.partition(BEGIN)
    return before + BEGIN + table() + END + rest.partition(END)[2]


if __name__ == "__main__":
    if sys.argv[1:]:
        path = Path(sys.argv[1])
        path.write_text(with_table(path.read_text()))
    print(table(), end="")

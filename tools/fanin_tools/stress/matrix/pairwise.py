"""Pairwise sampling: a small sample in which every two values that can occur together do so at least once.

Greedy: of some combinations with a missing pair, it takes the one with the most missing pairs, until none is missing.
Equal seeds give equal samples.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Any

Combination = Mapping[str, Any]
Pair = tuple[tuple[str, Any], tuple[str, Any]]

CANDIDATES = 12  # that compete for a place in the sample


def pairwise_sample(
    dimensions: Mapping[str, Sequence[Any]], is_valid: Callable[[Combination], bool], seed: int
) -> Iterator[Combination]:
    """Combinations that cover all valid pairs of values of different dimensions."""
    random = Random(seed)
    missing = dict.fromkeys(pairs_to_cover(dimensions, is_valid))
    while missing:
        wanted = next(iter(missing))
        del missing[wanted]
        made = [_completed(dict(wanted), dimensions, is_valid, random) for _ in range(CANDIDATES)]
        candidates = [combination for combination in made if combination is not None]
        if not candidates:
            continue  # the pair is valid, but not together with any other values
        best = max(
            candidates, key=lambda combination: sum(pair in missing for pair in pairs_of(combination, dimensions))
        )
        for pair in pairs_of(best, dimensions):
            missing.pop(pair, None)
        yield best


def pairs_to_cover(dimensions: Mapping[str, Sequence[Any]], is_valid: Callable[[Combination], bool]) -> Iterator[Pair]:
    """All valid pairs of values of different dimensions."""
    for one, other in itertools.combinations(dimensions, 2):
        for first, second in itertools.product(dimensions[one], dimensions[other]):
            if is_valid({one: first, other: second}):
                yield (one, first), (other, second)


def pairs_of(combination: Combination, dimensions: Mapping[str, Sequence[Any]]) -> Iterator[Pair]:
    return itertools.combinations([(name, combination[name]) for name in dimensions], 2)


def _completed(
    combination: dict[str, Any],
    dimensions: Mapping[str, Sequence[Any]],
    is_valid: Callable[[Combination], bool],
    random: Random,
) -> Combination | None:
    """With a random valid value for every other dimension; None if a dimension has none."""
    for name in [name for name in dimensions if name not in combination]:
        possible = [value for value in dimensions[name] if is_valid({**combination, name: value})]
        if not possible:
            return None
        combination[name] = random.choice(possible)
    return combination

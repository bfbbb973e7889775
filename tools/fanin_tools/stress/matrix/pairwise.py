"""A small sample of the matrix in which every two values that can occur together do so at least once.

Greedy: of some choices that contain a pair still missing, the one with the most missing pairs is taken, until none is
missing. Equal for equal seeds.
"""

from __future__ import annotations

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
    """Choices that cover all sensible pairs of values of different dimensions."""
    random = Random(seed)
    missing = dict.fromkeys(pairs_to_cover(dimensions, is_valid))
    while missing:
        wanted = next(iter(missing))
        del missing[wanted]
        made = [_completed(dict(wanted), dimensions, is_valid, random) for _ in range(CANDIDATES)]
        candidates = [combination for combination in made if combination is not None]
        if not candidates:
            continue  # two values that make sense, but not with any of the others
        best = max(
            candidates, key=lambda combination: sum(pair in missing for pair in pairs_of(combination, dimensions))
        )
        for pair in pairs_of(best, dimensions):
            missing.pop(pair, None)
        yield best


def pairs_to_cover(dimensions: Mapping[str, Sequence[Any]], is_valid: Callable[[Combination], bool]) -> Iterator[Pair]:
    """Every two values of different dimensions that make sense together."""
    for one, other in itertools.combinations(dimensions, 2):
        for first, second in itertools.product(dimensions[one], dimensions[other]):
            if is_valid({one: first, other: second}):
                yield (one, first), (other, second)


def pairs_of(combination: Combination, dimensions: Mapping[str, Sequence[Any]]) -> Iterator[Pair]:
    """The pairs that a whole choice contains."""
    return itertools.combinations([(name, combination[name]) for name in dimensions], 2)


def _completed(
    combination: dict[str, Any],
    dimensions: Mapping[str, Sequence[Any]],
    is_valid: Callable[[Combination], bool],
    random: Random,
) -> Combination | None:
    """The choice with a value for every dimension, drawn from those that still make sense; None where none does."""
    for name in [name for name in dimensions if name not in combination]:
        possible = [value for value in dimensions[name] if is_valid({**combination, name: value})]
        if not possible:
            return None
        combination[name] = random.choice(possible)
    return combination

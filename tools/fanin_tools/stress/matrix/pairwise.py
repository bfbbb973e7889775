"""A small sample of the matrix in which every two values that can occur together do so at least once.

Greedy: of some choices that contain a pair still missing, the one with the most missing pairs is taken, until none is
missing. Equal for equal seeds.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

Choice = Mapping[str, Any]
Pair = tuple[tuple[str, Any], tuple[str, Any]]

CANDIDATES = 12  # that compete for a place in the sample


def sample(dimensions: Mapping[str, Sequence[Any]], sensible: Callable[[Choice], bool], seed: int) -> Iterator[Choice]:
    """Choices that cover all sensible pairs of values of different dimensions."""
    chance = random.Random(seed)
    missing = dict.fromkeys(pairs_to_cover(dimensions, sensible))
    while missing:
        wanted = next(iter(missing))
        del missing[wanted]
        made = [_completed(dict(wanted), dimensions, sensible, chance) for _ in range(CANDIDATES)]
        candidates = [choice for choice in made if choice is not None]
        if not candidates:
            continue  # two values that make sense, but not with any of the others
        best = max(candidates, key=lambda choice: sum(pair in missing for pair in pairs_of(choice, dimensions)))
        for pair in pairs_of(best, dimensions):
            missing.pop(pair, None)
        yield best


def pairs_to_cover(dimensions: Mapping[str, Sequence[Any]], sensible: Callable[[Choice], bool]) -> Iterator[Pair]:
    """Every two values of different dimensions that make sense together."""
    for one, other in itertools.combinations(dimensions, 2):
        for first, second in itertools.product(dimensions[one], dimensions[other]):
            if sensible({one: first, other: second}):
                yield (one, first), (other, second)


def pairs_of(choice: Choice, dimensions: Mapping[str, Sequence[Any]]) -> Iterator[Pair]:
    """The pairs that a whole choice contains."""
    return itertools.combinations([(name, choice[name]) for name in dimensions], 2)


def _completed(
    choice: dict[str, Any],
    dimensions: Mapping[str, Sequence[Any]],
    sensible: Callable[[Choice], bool],
    chance: random.Random,
) -> Choice | None:
    """The choice with a value for every dimension, drawn from those that still make sense; None where none does."""
    for name in [name for name in dimensions if name not in choice]:
        possible = [value for value in dimensions[name] if sensible({**choice, name: value})]
        if not possible:
            return None
        choice[name] = chance.choice(possible)
    return choice

"""Chance without a state: a number that depends on the seed and on what it is for, and on nothing that happened before.

So a fault can be taken out of a schedule, and all others stay where they are.
"""

from __future__ import annotations

from numba import int64, uint64

from fanin_sim.jit import internal

GOLDEN = uint64(0x9E3779B97F4A7C15)
FIRST, SECOND = uint64(0xBF58476D1CE4E5B9), uint64(0x94D049BB133111EB)
RATE_SCALE = 65536  # what rates are parts of

# What else than a kind of fault a number is drawn for.
WEIGHT, LATENCY, GAP, PAUSE = 32, 33, 34, 35


@internal
def mix(word):
    """A word whose bits all depend on all bits of another (the last steps of splitmix64)."""
    word = (word ^ (word >> uint64(30))) * FIRST
    word = (word ^ (word >> uint64(27))) * SECOND
    return word ^ (word >> uint64(31))


@internal
def draw(seed, purpose, place, ordinal):
    """A number draw_below 2^47, for one purpose, at one place, for the `ordinal`-th time."""
    word = mix(uint64(seed) + GOLDEN * uint64(purpose + 1))
    word = mix(word + GOLDEN * uint64(place + 1))
    return int64(mix(word + GOLDEN * uint64(ordinal + 1)) >> uint64(17))


@internal
def draw_below(seed, purpose, place, ordinal, limit):
    """A number draw_below `limit`; 0 if that is 0."""
    return draw(seed, purpose, place, ordinal) % limit if limit > 0 else 0

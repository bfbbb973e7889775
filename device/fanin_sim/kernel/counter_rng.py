"""Random numbers by a counter: each is a hash of the seed, its purpose, a place and a counter, and of nothing else.

So a fault can be removed from a schedule while all other faults stay in their places.
"""

from numba import int64, uint64

from fanin_sim.jit import internal

GOLDEN = uint64(0x9E3779B97F4A7C15)
FIRST, SECOND = uint64(0xBF58476D1CE4E5B9), uint64(0x94D049BB133111EB)
RATE_SCALE = 65536  # denominator of all rates

# Purposes; the kinds of faults are purposes, too.
WEIGHT, LATENCY, GAP, PAUSE = 32, 33, 34, 35


@internal
def mix(word):
    """Mixes the bits of a word: the last steps of splitmix64."""
    word = (word ^ (word >> uint64(30))) * FIRST
    word = (word ^ (word >> uint64(27))) * SECOND
    return word ^ (word >> uint64(31))


@internal
def draw(seed, purpose, place, ordinal):
    """A number below 2^47, for one purpose, at one place, for the `ordinal`-th time."""
    word = mix(uint64(seed) + GOLDEN * uint64(purpose + 1))
    word = mix(word + GOLDEN * uint64(place + 1))
    return int64(mix(word + GOLDEN * uint64(ordinal + 1)) >> uint64(17))


@internal
def draw_below(seed, purpose, place, ordinal, limit):
    """A number below `limit`; 0 if the limit is 0."""
    return draw(seed, purpose, place, ordinal) % limit if limit > 0 else 0

"""Divisors of MEAN, and their reciprocals as the RTL has them."""

import numpy as np

LARGEST = 2**32 - 1


def reciprocal_of(divisor: int) -> tuple[int, int]:
    """(2**(64 + shift) - 1) / divisor, rounded down and without its first bit, and the shift: the divisor's bits."""
    shift = divisor.bit_length()
    return ((1 << 64 + shift) - 1) // divisor - (1 << 64), shift


def as_f32(divisor: int) -> int:
    """The nearest f32 of a divisor, which is a whole number."""
    return int(np.float32(divisor))


def divisors(generator: np.random.Generator, count: int) -> list[int]:
    """All of 2 to 300, those near each power of two and each tie of its f32, and random ones of any length."""
    powers = [(1 << places) + offset for places in range(2, 33) for offset in range(-3, 4)]
    ties = [(1 << places) + odd * (1 << places - 24) for places in range(24, 32) for odd in (1, 3, 2**24 - 1)]
    any_length = generator.integers(2, 1 << 32, count) >> generator.integers(0, 31, count)
    return [each for each in (*range(2, 301), *powers, *ties, *map(int, any_length)) if 2 <= each <= LARGEST]

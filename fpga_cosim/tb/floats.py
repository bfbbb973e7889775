"""Operands of float units: every special value against every other, and random ones of each class. Beats of f32."""

import numpy as np

BYTES = 64  # of a beat
UNSIGNED = {16: np.uint16, 32: np.uint32}


def special_values(exponent: int, fraction: int) -> np.ndarray:
    """Bits of zeros, subnormals, edges of binades, infinities and NaNs of both signs, of a format of these widths."""
    one, top = 1 << fraction, (1 << exponent) - 1
    bias = top >> 1
    exponents = {0, 1, 2, bias - fraction - 2, bias - fraction, bias - 1, bias, bias + 1, bias + fraction, top - 1, top}
    fractions = {0, 1, 2, 3, one // 2 - 1, one // 2, one // 2 + 1, one - 2, one - 1}
    magnitudes = [field << fraction | part for field in sorted(exponents) for part in sorted(fractions)]
    sign = 1 << (exponent + fraction)
    return np.array([*magnitudes, *(sign | each for each in magnitudes)], UNSIGNED[1 + exponent + fraction])


def operands(generator: np.random.Generator, count: int, exponent: int = 8, fraction: int = 23) -> tuple:
    """Two arrays of bits: all pairs of special values, then `count` random pairs.

    A quarter of them is any bits, a quarter has exponents near each other, a quarter is nearly equal with opposite
    signs (cancellation), a quarter has small exponents (subnormals).
    """
    special = special_values(exponent, fraction)
    kind = special.dtype.type
    a = generator.integers(0, np.iinfo(kind).max, count, kind, endpoint=True)
    b = generator.integers(0, np.iinfo(kind).max, count, kind, endpoint=True)
    quarter = count // 4
    field = kind(((1 << exponent) - 1) << fraction)
    near, close, low = (slice(k * quarter, (k + 1) * quarter) for k in (1, 2, 3))
    shift = generator.integers(0, fraction + 4, quarter, kind) << kind(fraction)
    b[near] = (b[near] & ~field) | ((a[near] & field) - np.minimum(shift, a[near] & field))
    b[close] = (a[close] ^ kind(1 << (exponent + fraction))) + generator.integers(0, 5, quarter, kind) - kind(2)
    few = kind((7 << fraction) | ((1 << fraction) - 1) | 1 << (exponent + fraction))
    a[low] &= few
    b[low] &= few
    return np.concatenate([np.repeat(special, len(special)), a]), np.concatenate([np.tile(special, len(special)), b])


def halves(wide: np.ndarray, beats: int) -> tuple[np.ndarray, np.ndarray]:
    """f32 values of f16 or bf16 in two beats of bytes: of each four the first two in one, two in the other."""
    lanes = wide.reshape(beats, BYTES // 8, 4)
    low, high = np.ascontiguousarray(lanes[..., :2]), np.ascontiguousarray(lanes[..., 2:])
    return low.view(np.uint8).reshape(beats, BYTES), high.view(np.uint8).reshape(beats, BYTES)


def joined_halves(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    lanes = [half.view(np.float32).reshape(-1, 2) for half in (np.ascontiguousarray(low), np.ascontiguousarray(high))]
    return np.concatenate(lanes, 1).reshape(-1)

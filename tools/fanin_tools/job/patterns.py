"""Data whose reduction is known: small whole numbers, so that every order of adding floats gives the same bits.

The numbers repeat after PERIOD elements. PERIOD is a prime: no two segments of a message begin at the same place of it,
so a segment that is put to a wrong place shows; and numpy's reference has to be computed over one period only.
"""

from __future__ import annotations

import numpy as np

PERIOD = 65521
LARGEST = 1000  # 4096 ranks of it stay below 2**24, where f32 stops being exact
DTYPES = {"f32": np.float32, "f64": np.float64, "i32": np.int32, "i64": np.int64}
OPS = ("sum", "min", "max", "mean")


def pattern(seed: int, rank: int, dtype: str) -> np.ndarray:
    """One period of the data of `rank`: shape (PERIOD,)."""
    numbers = np.random.default_rng([seed, rank]).integers(-LARGEST, LARGEST, PERIOD, endpoint=True)
    return numbers.astype(DTYPES[dtype])


def reference(seed: int, size: int, dtype: str, op: str) -> np.ndarray:
    """One period of what an allreduce over ranks 0 to size - 1 must give, by numpy."""
    rows = np.stack([pattern(seed, rank, dtype) for rank in range(size)])
    if op == "min":
        return rows.min(axis=0)
    if op == "max":
        return rows.max(axis=0)
    total = rows.sum(axis=0, dtype=rows.dtype)
    return total if op == "sum" else _divided(total, size)


def _divided(total: np.ndarray, size: int) -> np.ndarray:
    """MEAN: one true division for floats, toward zero for integers."""
    if total.dtype.kind == "f":
        return total / total.dtype.type(size)
    return np.sign(total) * (np.abs(total) // total.dtype.type(size))


def fill(array: np.ndarray, period: np.ndarray) -> None:
    """Repeat `period` over the flat `array`."""
    whole = array.size - array.size % PERIOD
    array[:whole].reshape(-1, PERIOD)[:] = period
    array[whole:] = period[: array.size - whole]


def wrong_elements(array: np.ndarray, period: np.ndarray) -> int:
    """How many elements of the flat `array` differ in any bit from `period` repeated."""
    bits = np.dtype(f"u{array.itemsize}")
    have, want = array.view(bits), period.view(bits)
    whole = array.size - array.size % PERIOD
    wrong = sum(np.count_nonzero(block != want) for block in have[:whole].reshape(-1, PERIOD))
    return int(wrong + np.count_nonzero(have[whole:] != want[: array.size - whole]))

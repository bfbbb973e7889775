"""The data of demonstration and bench: exact in every order of adding, and sensitive to every mistake."""

from __future__ import annotations

import numpy as np
import pytest

from fanin_tools.job import patterns

SIZE = 7


@pytest.mark.parametrize("dtype", patterns.DTYPES)
@pytest.mark.parametrize("op", patterns.OPS)
def test_reference_is_what_elementwise_arithmetic_gives(op: str, dtype: str) -> None:
    rows = [patterns.pattern(1, rank, dtype)[:300].tolist() for rank in range(SIZE)]
    by_hand = {
        "sum": lambda column: sum(column),
        "min": min,
        "max": max,
        "mean": lambda column: sum(column) / SIZE if dtype.startswith("f") else int(sum(column) / SIZE),
    }[op]
    expected = np.array([by_hand(column) for column in zip(*rows, strict=True)], patterns.DTYPES[dtype])
    reference = patterns.reference(1, SIZE, dtype, op)[:300]
    assert reference.dtype == expected.dtype
    assert reference.tobytes() == expected.tobytes()


def test_float_sums_are_exact_in_every_order() -> None:
    rows = np.stack([patterns.pattern(1, rank, "f32") for rank in range(64)])
    forward, backward = np.zeros(patterns.PERIOD, np.float32), np.zeros(patterns.PERIOD, np.float32)
    for row in rows:
        forward += row
    for row in rows[::-1]:
        backward += row
    assert forward.tobytes() == backward.tobytes()


@pytest.mark.parametrize("size", [0, 1, 1023, patterns.PERIOD, 3 * patterns.PERIOD + 5])
def test_right_result_has_no_wrong_element(size: int) -> None:
    array, period = np.empty(size, np.float32), patterns.pattern(1, 0, "f32")
    patterns.fill(array, period)
    assert patterns.wrong_elements(array, period) == 0


@pytest.mark.parametrize("place", [0, patterns.PERIOD - 1, patterns.PERIOD, 3 * patterns.PERIOD + 4])
def test_one_wrong_bit_is_found(place: int) -> None:
    array, period = np.empty(3 * patterns.PERIOD + 5, np.float32), patterns.pattern(1, 0, "f32")
    patterns.fill(array, period)
    array.view(np.uint32)[place] ^= 1
    assert patterns.wrong_elements(array, period) == 1


def test_negative_zero_is_not_zero() -> None:
    assert patterns.wrong_elements(np.array([-0.0], np.float32), np.zeros(patterns.PERIOD, np.float32)) == 1


def test_exchanged_segments_are_found() -> None:
    array, period = np.empty(1 << 20, np.float32), patterns.pattern(1, 0, "f32")
    patterns.fill(array, period)
    segments = array.reshape(-1, 1024)
    segments[[3, 800]] = segments[[800, 3]]
    assert patterns.wrong_elements(array, period) > 2000

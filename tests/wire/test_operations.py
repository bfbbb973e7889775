"""The oracles of the operations, against rules stated in another way (Python's integers, bit patterns)."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from fanin_wire.operations import operation_by_name

NAN32 = 0x7FC00000
SIGNALLING_NAN32 = 0xFFA00001


def f32(*bits: int) -> np.ndarray:
    """Contributions of one f32 each, by bit pattern; shape (contributors, 1)."""
    return np.array(bits, np.uint32).view(np.float32).reshape(-1, 1)


def result_bits(name: str, contributions: np.ndarray) -> int:
    return int(operation_by_name(name).oracle(contributions).view(np.uint32)[0])


def integers(bits: int):
    shape = st.tuples(st.integers(2, 6), st.just(3))
    return arrays.arrays(np.dtype(f"<i{bits // 8}"), shape)


def wrapped(value: int, bits: int) -> int:
    return (value + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)


@pytest.mark.parametrize("name", ["SUM", "MIN", "MAX", "MEAN"])
@pytest.mark.parametrize("bits", [0x80000000, SIGNALLING_NAN32, 1])
def test_single_contribution_is_unchanged(name, bits):
    assert result_bits(name, f32(bits)) == bits


@pytest.mark.parametrize("name", ["SUM", "MIN", "MAX", "MEAN"])
@pytest.mark.parametrize("contributions", [(SIGNALLING_NAN32, 0), (0, 0xFFFFFFFF), (NAN32, NAN32), (0, NAN32, 1)])
def test_nan_is_canonical(name, contributions):
    assert result_bits(name, f32(*contributions)) == NAN32


def test_infinities_of_both_signs():
    assert result_bits("SUM", f32(0x7F800000, 0xFF800000)) == NAN32
    assert result_bits("MEAN", f32(0x7F800000, 0x7F800000)) == 0x7F800000


@pytest.mark.parametrize("order", [(0x80000000, 0), (0, 0x80000000)])
def test_zeros_are_ordered(order):
    assert result_bits("MIN", f32(*order)) == 0x80000000
    assert result_bits("MAX", f32(*order)) == 0


def test_negative_zeros_sum_to_negative_zero():
    assert result_bits("SUM", f32(0x80000000, 0x80000000)) == 0x80000000


@pytest.mark.parametrize("bits", [32, 64])
@given(data=st.data())
def test_integer_sum_wraps_and_mean_truncates(bits, data):
    contributions = data.draw(integers(bits))
    totals = [wrapped(sum(map(int, column)), bits) for column in contributions.T]
    assert operation_by_name("SUM").oracle(contributions).tolist() == totals
    count = len(contributions)
    assert operation_by_name("MEAN").oracle(contributions).tolist() == [math.trunc(Fraction(t, count)) for t in totals]


@given(arrays.arrays(np.float64, (2, 4), elements=st.floats(-1e300, 1e300)))
def test_float_mean_is_rounded_once_after_the_sum(contributions):
    total = contributions[0] + contributions[1]
    expected = [float(Fraction(value) / 2) for value in total]
    assert operation_by_name("MEAN").oracle(contributions).tolist() == expected


@given(arrays.arrays(np.float32, (3, 4), elements=st.floats(width=32, allow_nan=False)))
def test_extremes_do_not_depend_on_the_order(contributions):
    for name in ("MIN", "MAX"):
        oracle = operation_by_name(name).oracle
        assert oracle(contributions).tobytes() == oracle(contributions[::-1]).tobytes()


def test_contributions_are_not_changed():
    contributions = np.array([[1, 2], [3, 4]], np.int32)
    operation_by_name("SUM").oracle(contributions)
    assert contributions.tolist() == [[1, 2], [3, 4]]

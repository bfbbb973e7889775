"""The oracles of the operations, against rules stated in another way (Python's integers, fractions, bit patterns)."""

import functools
import math
import operator
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from fanin_wire import arithmetic
from fanin_wire.datatypes import DATATYPES, DataType, Family, datatype_by_name
from fanin_wire.operations import OPERATIONS, Operation, operation_by_name

NAN32 = 0x7FC00000
SIGNALLING_NAN32 = 0xFFA00001
INTEGERS = [entry for entry in DATATYPES if entry.family == Family.INTEGER]
EVERY_INTEGER = pytest.mark.parametrize("datatype", INTEGERS, ids=lambda entry: entry.name)
EVERY_COMBINATION = pytest.mark.parametrize(
    ("operation", "datatype"),
    [(operation, datatype) for operation in OPERATIONS for datatype in DATATYPES if operation.takes(datatype)],
    ids=lambda entry: entry.name,
)
ON_TRUTH = {"LAND": operator.and_, "LOR": operator.or_, "LXOR": operator.xor}
ON_BITS = {"BAND": operator.and_, "BOR": operator.or_, "BXOR": operator.xor}
NAN16 = {"f16": 0x7E00, "bf16": 0x7FC0}


def f32(*bits: int) -> np.ndarray:
    """Contributions of one f32 each, by bit pattern; shape (contributors, 1)."""
    return np.array(bits, np.uint32).view(np.float32).reshape(-1, 1)


def result_bits(name: str, contributions: np.ndarray) -> int:
    return int(operation_by_name(name).oracle(contributions).view(np.uint32)[0])


def small(name: str, operation: str, *bits: int) -> int:
    """Result, by bit pattern, of contributions of one f16 or bf16 each."""
    datatype = datatype_by_name(name)
    contributions = np.array(bits, np.uint16).reshape(-1, 1).view(datatype.numpy)
    return int(operation_by_name(operation).oracle(contributions, datatype).view(np.uint16)[0])


def contributions_of(datatype: DataType):
    return arrays.arrays(datatype.numpy, st.tuples(st.integers(2, 6), st.just(3)))


def wrapped(value: int, datatype: DataType) -> int:
    bits = 8 * datatype.itemsize
    return (value + 2**bits - int(np.iinfo(datatype.numpy).min)) % 2**bits + int(np.iinfo(datatype.numpy).min)


@EVERY_COMBINATION
def test_single_contribution_is_unchanged(operation: Operation, datatype: DataType):
    raw = np.random.default_rng(1).bytes(100 * datatype.itemsize)  # NaNs with payloads, dirt in padding, bools of 77
    contribution = np.frombuffer(raw, datatype.numpy).reshape(1, -1)
    assert operation.oracle(contribution, datatype).tobytes() == raw
    assert operation.partial(contribution, datatype).tobytes() == raw


@EVERY_COMBINATION
def test_contributions_are_not_changed(operation: Operation, datatype: DataType):
    raw = np.random.default_rng(2).bytes(3 * 40 * datatype.itemsize)
    contributions = np.frombuffer(bytearray(raw), datatype.numpy).reshape(3, -1)
    result = operation.oracle(contributions, datatype)
    assert contributions.tobytes() == raw
    assert (result.dtype, result.shape) == (datatype.numpy, (40,))
    result.view(np.uint8)[:] = 0
    assert contributions.tobytes() == raw


@pytest.mark.parametrize("name", ["SUM", "MIN", "MAX", "MEAN", "PROD"])
@pytest.mark.parametrize("contributions", [(SIGNALLING_NAN32, 0), (0, 0xFFFFFFFF), (NAN32, NAN32), (0, NAN32, 1)])
def test_nan_is_canonical(name, contributions):
    assert result_bits(name, f32(*contributions)) == NAN32


def test_infinities_of_both_signs():
    assert result_bits("SUM", f32(0x7F800000, 0xFF800000)) == NAN32
    assert result_bits("PROD", f32(0x7F800000, 0)) == NAN32
    assert result_bits("MEAN", f32(0x7F800000, 0x7F800000)) == 0x7F800000


@pytest.mark.parametrize("order", [(0x80000000, 0), (0, 0x80000000)])
def test_zeros_are_ordered(order):
    assert result_bits("MIN", f32(*order)) == 0x80000000
    assert result_bits("MAX", f32(*order)) == 0


def test_negative_zeros_sum_to_negative_zero():
    assert result_bits("SUM", f32(0x80000000, 0x80000000)) == 0x80000000


@EVERY_INTEGER
@given(data=st.data())
def test_integers_wrap_and_mean_truncates(datatype, data):
    contributions = data.draw(contributions_of(datatype))
    columns = [list(map(int, column)) for column in contributions.T]
    totals = [wrapped(sum(column), datatype) for column in columns]
    assert operation_by_name("SUM").oracle(contributions).tolist() == totals
    products = [wrapped(math.prod(column), datatype) for column in columns]
    assert operation_by_name("PROD").oracle(contributions).tolist() == products
    count = len(contributions)
    assert operation_by_name("MEAN").oracle(contributions).tolist() == [math.trunc(Fraction(t, count)) for t in totals]


@EVERY_INTEGER
@given(data=st.data())
def test_logical_and_bitwise(datatype, data):
    contributions = data.draw(contributions_of(datatype))
    columns = [list(map(int, column)) for column in contributions.T]
    for name, step in ON_TRUTH.items():
        expected = [functools.reduce(step, [value != 0 for value in column]) for column in columns]
        assert operation_by_name(name).oracle(contributions).tolist() == expected
    for name, step in ON_BITS.items():
        assert operation_by_name(name).oracle(contributions).tolist() == [functools.reduce(step, c) for c in columns]


def test_truth_values_are_bools():
    contributions = np.array([[0, 0, 1, 1], [0, 1, 0, 1]], bool)
    results = {name: operation_by_name(name).oracle(contributions) for name in ON_TRUTH}
    assert {result.dtype for result in results.values()} == {np.dtype(bool)}
    assert results["LAND"].tolist() == [False, False, False, True]
    assert results["LOR"].tolist() == [False, True, True, True]
    assert results["LXOR"].tolist() == [False, True, True, False]


def test_any_byte_but_zero_is_true_and_the_result_is_one():
    contributions = np.array([[2, 128, 0], [4, 0, 0]], np.uint8).view(bool)
    assert operation_by_name("LAND").oracle(contributions).view(np.uint8).tolist() == [1, 0, 0]
    assert operation_by_name("LOR").oracle(contributions).view(np.uint8).tolist() == [1, 1, 0]


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


def test_complex_sum_is_one_of_each_part():
    contributions = np.array([[complex(-0.0, math.inf)], [complex(-0.0, -math.inf)], [complex(-0.0, 1)]], np.complex64)
    result = operation_by_name("SUM").oracle(contributions)
    assert result.dtype == np.complex64
    assert result.view(np.uint32).tolist() == [0x80000000, NAN32]


# f16 and bf16: 0x3C00 and 0x3F80 are 1; 0x1000 and 0x3B80 half of its last digit (2^-11, 2^-8).


@pytest.mark.parametrize(("name", "one", "half"), [("f16", 0x3C00, 0x1000), ("bf16", 0x3F80, 0x3B80)])
def test_small_floats_are_rounded_once_to_even(name, one, half):
    assert small(name, "SUM", one, half) == one  # a tie: down to even
    assert small(name, "SUM", one + 1, half) == one + 2  # a tie: up to even
    assert small(name, "SUM", one, half, half) == one + 1  # step by step it would be 1
    assert small(name, "SUM", one | 0x8000, half | 0x8000, 1) == one | 0x8000
    assert small(name, "MEAN", one, one, one + 1) == one  # 1 + a third of the last digit


@pytest.mark.parametrize(("name", "one", "half"), [("f16", 0x3C00, 0x1000), ("bf16", 0x3F80, 0x3B80)])
def test_partials_are_rounded_at_each_output_or_wide(name, one, half):
    datatype, add = datatype_by_name(name), operation_by_name("SUM")
    group = np.array([[one], [half]], np.uint16).view(datatype.numpy)
    rounded, wide = add.partial(group, datatype), add.partial(group, datatype, wide=True)
    assert rounded.view(np.uint16).tolist() == [one]
    assert wide.dtype == np.float32
    assert wide[0] == 1 + 2.0 ** (-11 if name == "f16" else -8)
    of_rounded = add.finish(add.partial(np.stack([rounded, group[1]]), datatype), 3, datatype)
    of_wide = add.finish(add.partial(np.stack([wide, wide * 0 + wide % 1])), 3, datatype)
    assert of_rounded.view(np.uint16).tolist() == [one]
    assert of_wide.view(np.uint16).tolist() == [one + 1]


def test_mean_of_a_narrow_partial_is_divided_in_f32():
    total = np.array([3.0], np.float16)  # the only partial that a switch gets, over 7 ranks
    assert operation_by_name("MEAN").finish(total, 7).tolist() == [float(np.float16(3 / 7))]


@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_small_nan_is_canonical(name):
    for operation in ("SUM", "PROD", "MEAN", "MIN", "MAX"):
        assert small(name, operation, 0xFFFF, 0) == NAN16[name]
        assert small(name, operation, 0, NAN16[name] + 3) == NAN16[name]


def test_small_floats_overflow_to_infinity_at_the_output_only():
    assert small("f16", "SUM", 0x7BFF, 0x7BFF) == 0x7C00
    assert small("f16", "SUM", 0x7BFF, 0x7BFF, 0xFBFF) == 0x7BFF
    assert small("bf16", "PROD", 0x7F7F, 0x4000) == 0x7F80


@given(st.integers(0, 2**32 - 1))
def test_bf16_is_the_nearest(bits):
    value = np.array([bits], np.uint32).view(np.float32)
    rounded = operation_by_name("SUM").finish(value, 2, datatype_by_name("bf16"))
    if np.isfinite(value[0]) and bits & 0x7FFF0000 < 0x7F7F0000:
        near = [(bits & 0xFFFF0000) + step for step in (0, 0x10000)]
        error = [abs(Fraction(float(np.uint32(word).view(np.float32))) - Fraction(float(value[0]))) for word in near]
        best = [word >> 16 for word, miss in zip(near, error, strict=True) if miss == min(error)]
        assert rounded.tolist() == [best[0] if len(best) == 1 else next(word for word in best if word % 2 == 0)]


@pytest.mark.parametrize("datatype", [entry for entry in DATATYPES if entry.alias], ids=lambda entry: entry.name)
def test_small_floats_like_ml_dtypes(datatype):
    """Every number of the type, the ties between two, their neighbours, and any f32."""
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed")
    theirs, unsigned = getattr(ml_dtypes, datatype.alias), f"u{datatype.itemsize}"
    every = np.arange(1 << 8 * datatype.itemsize).astype(unsigned)
    numbers = every.view(theirs).astype(np.float32)
    assert np.array_equal(arithmetic.widen(every.view(datatype.numpy), datatype), numbers, equal_nan=True)
    ordered = np.sort(numbers[np.isfinite(numbers)]).astype(np.float64)
    ties = ((ordered[1:] + ordered[:-1]) / 2).astype(np.float32)
    near = [numbers, ties, np.nextafter(ties, np.float32(np.inf)), np.nextafter(ties, np.float32(-np.inf))]
    anywhere = np.random.default_rng(1).integers(0, 2**32, 10**5, np.uint32).view(np.float32)
    values = np.concatenate([*near, anywhere])
    with np.errstate(invalid="ignore", over="ignore"):
        expected = values.astype(theirs).view(unsigned)
    assert (arithmetic.narrow(values, datatype) == expected)[~np.isnan(values)].all()


def test_arrays_of_ml_dtypes():
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed")
    pair = np.array([[1.0, 2.5], [0.25, 0.5]], ml_dtypes.bfloat16)
    assert operation_by_name("SUM").oracle(pair).dtype == ml_dtypes.bfloat16
    assert operation_by_name("SUM").oracle(pair).tolist() == [1.25, 3.0]
    assert operation_by_name("MAX").oracle(pair).tolist() == [1.0, 2.5]


def pairs(name: str, *contributions: tuple[float, int]) -> np.ndarray:
    return np.array(list(contributions), datatype_by_name(name).numpy).reshape(-1, 1)


def located(operation: str, contributions: np.ndarray) -> tuple[float, int]:
    value, index = operation_by_name(operation).oracle(contributions)[0]
    return value, index


@pytest.mark.parametrize("name", [entry.name for entry in DATATYPES if entry.family == Family.PAIR])
def test_pairs_are_located(name):
    contributions = pairs(name, (3, 7), (-2, 5), (3, 4), (-2, 9), (0, 1))
    assert located("MINLOC", contributions) == (-2, 5)
    assert located("MAXLOC", contributions) == (3, 4)
    assert located("MINLOC", pairs(name, (1, 2), (1, -3))) == (1, -3)


@pytest.mark.parametrize("name", ["f32_i32", "f64_i32"])
def test_zeros_and_nans_of_pairs(name):
    nan = math.nan
    assert located("MINLOC", pairs(name, (0.0, 1), (-0.0, 2)))[1] == 1  # equal: the lower index
    assert located("MINLOC", pairs(name, (-math.inf, 1), (nan, 2), (-5, 3), (nan, 1)))[1] == 1
    assert located("MAXLOC", pairs(name, (math.inf, 0), (nan, 4), (nan, 3)))[1] == 3
    for zeros in (((0.0, 1), (-0.0, 1)), ((-0.0, 1), (0.0, 1))):
        assert math.copysign(1, located("MINLOC", pairs(name, *zeros))[0]) == -1
        assert math.copysign(1, located("MAXLOC", pairs(name, *zeros))[0]) == 1
    result = operation_by_name("MAXLOC").oracle(pairs(name, (-nan, 4), (1, 2)))
    assert math.isnan(result["value"][0])
    assert not np.signbit(result["value"][0])


@given(data=st.data())
def test_locations_do_not_depend_on_the_order(data):
    values = st.tuples(st.sampled_from([0.0, -0.0, math.nan, math.inf, -1.0, 2.0]), st.integers(-2, 2))
    contributions = pairs("f64_i32", *data.draw(st.lists(values, min_size=2, max_size=6)))
    for name in ("MINLOC", "MAXLOC"):
        oracle = operation_by_name(name).oracle
        assert oracle(contributions).tobytes() == oracle(contributions[::-1]).tobytes()


def test_padding_of_a_computed_pair_is_zero():
    datatype = datatype_by_name("i16_i32")
    contributions = np.frombuffer(b"\x01\x00\xee\xee\x02\x00\x00\x00" * 2, datatype.numpy).reshape(2, 1)
    assert operation_by_name("MINLOC").oracle(contributions).tobytes() == b"\x01\x00\x00\x00\x02\x00\x00\x00"


def test_fields_of_a_pair_keep_their_names():
    named = np.dtype([("loss", "<f4"), ("rank", "<i4")])
    contributions = np.array([[(1.5, 3)], [(0.5, 4)]], named)
    result = operation_by_name("MINLOC").oracle(contributions)
    assert result.dtype == named
    assert result["rank"].tolist() == [4]

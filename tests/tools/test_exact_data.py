"""Test data are exact in every order and grouping, and sensitive to every mistake."""

import functools

import numpy as np
import pytest

from fanin_tools.launch import exact_data
from fanin_tools.launch.exact_data import MOVED, ExactData
from fanin_wire.datatypes import datatype_by_name
from fanin_wire.operations import operation_by_name

SIZE, COUNT = 7, 400
PAIRS = [
    (op, dtype)
    for op in exact_data.OPS
    for dtype in exact_data.DTYPES
    if operation_by_name(op).takes(datatype_by_name(dtype))
]


def bytes_of(array: np.ndarray) -> bytes:
    return exact_data.bits(np.ascontiguousarray(array)).tobytes()


@pytest.mark.parametrize(("op", "by_hand"), [("sum", sum), ("min", min), ("max", max)])
@pytest.mark.parametrize("dtype", ["f64", "u64"])
def test_reference_equals_elementwise_arithmetic(op: str, by_hand, dtype: str) -> None:
    data = ExactData(1, SIZE, dtype, op)
    rows = [data.contribution(rank, COUNT).tolist() for rank in range(SIZE)]
    ordinary = [column for column in zip(*rows, strict=True) if all(value == value and value for value in column)]
    places = [place for place, column in enumerate(zip(*rows, strict=True)) if column in ordinary]
    exact = [by_hand(column) for column in ordinary]
    wrapped = [value % (1 << 64) if dtype == "u64" else value for value in exact]
    assert len(ordinary) > COUNT // 2
    assert bytes_of(data.reduced(COUNT)[places]) == bytes_of(np.array(wrapped, datatype_by_name(dtype).numpy))


@pytest.mark.parametrize(("op", "dtype"), PAIRS)
def test_order_and_grouping_do_not_matter(op: str, dtype: str) -> None:
    """Even if partial results of groups are rounded to the type, as on a path of several devices."""
    data, operation, datatype = ExactData(3, SIZE, dtype, op), operation_by_name(op), datatype_by_name(dtype)
    rows = np.stack([data.contribution(rank, COUNT) for rank in range(SIZE)])
    groups = [operation.partial(rows[group], datatype) for group in ([6, 2], [5], [4, 0, 3], [1])]
    folded = operation.partial(np.stack(groups), datatype)
    assert bytes_of(operation.finish(folded, SIZE, datatype)) == bytes_of(data.reduced(COUNT))


@pytest.mark.parametrize(("op", "dtype"), PAIRS)
def test_a_rank_that_is_left_out_shows(op: str, dtype: str) -> None:
    data, operation, datatype = ExactData(3, SIZE, dtype, op), operation_by_name(op), datatype_by_name(dtype)
    rows = np.stack([data.contribution(rank, COUNT) for rank in range(SIZE)])
    for missing in range(SIZE):
        others = np.delete(rows, missing, axis=0)
        assert bytes_of(operation.oracle(others, datatype)) != bytes_of(data.reduced(COUNT))


@pytest.mark.parametrize("dtype", exact_data.DTYPES)
def test_moved_data_have_all_bits(dtype: str) -> None:
    rows = [
        np.frombuffer(bytes_of(ExactData(1, 2, dtype, MOVED).contribution(rank, COUNT)), np.uint8) for rank in range(2)
    ]
    assert functools.reduce(np.bitwise_or, rows[0]) == 255
    assert not np.array_equal(rows[0], rows[1])


@pytest.mark.parametrize("start", [0, 5])
@pytest.mark.parametrize("size", [0, 1, 1023, 1024, 3 * 1024 + 5])
def test_right_result_has_no_wrong_element(size: int, start: int) -> None:
    period = ExactData(1, 2, "f32", "sum").contribution(0, 1024)
    array = np.empty(size, np.float32)
    exact_data.fill(array, period, start)
    assert exact_data.wrong_elements(array, period, start) == 0
    assert size < 2 or exact_data.wrong_elements(array, period, start + 1) > size // 2


@pytest.mark.parametrize("dtype", ["u8", "f16", "f32", "f64", "c128", "f64_i32"])
@pytest.mark.parametrize("place", [0, 1023, 1024, 3 * 1024 + 4])
def test_one_wrong_bit_is_found(dtype: str, place: int) -> None:
    period = ExactData(1, 2, dtype, MOVED).contribution(0, 1024)
    array = np.empty(3 * 1024 + 5, datatype_by_name(dtype).numpy)
    exact_data.fill(array, period)
    array.view(np.uint8)[place * array.itemsize + array.itemsize - 1] ^= 1
    assert exact_data.wrong_elements(array, period) == 1


def test_negative_zero_is_not_zero() -> None:
    assert exact_data.wrong_elements(np.array([-0.0], np.float32), np.zeros(5, np.float32)) == 1


def test_exchanged_segments_are_found() -> None:
    array, period = np.empty(1 << 20, np.float32), ExactData(1, 2, "f32", "sum").contribution(0)
    exact_data.fill(array, period)
    segments = array.reshape(-1, 1024)
    segments[[3, 800]] = segments[[800, 3]]
    assert exact_data.wrong_elements(array, period) > 2000

"""Every kernel, called as the engine calls it, bit for bit against the oracle of fanin_wire."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit
from numba.core.registry import cpu_target

from fanin_nic.engine.kernels import FINISH, NARROW, WIDEN, __main__, itemsize_table, kernel_table
from fanin_nic.engine.kernels.floats import f16_of_f32_by_bits, f32_of_f16_by_bits
from fanin_nic.engine.kernels.table import DISTINCT, KERNELS, MAX_DTYPES, MAX_OPS
from fanin_nic.engine.kernels.unit import addresses_of
from fanin_nic.engine.records.accessors import engine_at
from fanin_nic.engine.records.tables import ENGINE
from fanin_nic.engine.slots import is_supported, itemsize
from fanin_wire import arithmetic
from fanin_wire.abi import DType, Op
from fanin_wire.datatypes import DATATYPES, DataType, Family, datatype_by_name
from fanin_wire.operations import OPERATIONS, Operation, operation_by_name, supports
from tests.engine.vector_unit import COMBINATIONS, Memory, anything, compute, digits_of, edges, kernel, name_of

EVERY_COMBINATION = pytest.mark.parametrize(("operation", "datatype"), COMBINATIONS, ids=name_of)
SMALL_FLOATS = [entry for entry in DATATYPES if entry.family == Family.SMALL_FLOAT]
EVERY_SMALL_FLOAT = pytest.mark.parametrize("datatype", SMALL_FLOATS, ids=name_of)
F32 = datatype_by_name("f32")
_f32_of_f16_by_bits, _f16_of_f32_by_bits = njit(f32_of_f16_by_bits), njit(f16_of_f32_by_bits)
MEAN = operation_by_name("MEAN")
DIVISORS = [2, 3, 7, 10, 127, 128, 255, 256, 257, 65535, 65536, 65537, 2**24 + 1, 2**31 - 1, 2**32 - 1, 2**38 - 1]


def counts(datatype: DataType) -> list[int]:
    """Numbers of elements around the widths of vectors, up to a segment."""
    segment = 4096 // datatype.itemsize
    return [0, 1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 127, segment - 1, segment]


@EVERY_COMBINATION
def test_every_pair_of_edges(operation: Operation, datatype: DataType) -> None:
    values = edges(datatype)
    first, second = np.meshgrid(np.arange(len(values)), np.arange(len(values)))
    pairs = np.stack([values[first.ravel()], values[second.ravel()]])
    assert compute(operation, pairs, datatype) == operation.oracle(pairs, datatype).tobytes()


@EVERY_COMBINATION
def test_every_count_at_any_address(operation: Operation, datatype: DataType) -> None:
    generator = np.random.default_rng(operation.code * 100 + datatype.code)
    for number, count in enumerate(counts(datatype)):
        rows = anything(generator, (2 + number % 4, count), datatype)
        assert compute(operation, rows, datatype, offset=number % 3) == operation.oracle(rows, datatype).tobytes()


@EVERY_COMBINATION
@given(data=st.data())
@settings(max_examples=20)
def test_any_bits(operation: Operation, datatype: DataType, data: st.DataObject) -> None:
    shape = data.draw(st.integers(2, 4)), data.draw(st.integers(1, 20))
    size = shape[0] * shape[1] * datatype.itemsize
    rows = np.frombuffer(data.draw(st.binary(min_size=size, max_size=size)), datatype.numpy).reshape(shape)
    assert compute(operation, rows, datatype) == operation.oracle(rows, datatype).tobytes()


@pytest.mark.parametrize("datatype", [entry for entry in DATATYPES if MEAN.takes(entry)], ids=name_of)
@pytest.mark.parametrize("ranks", DIVISORS)
def test_mean_divides_by_any_number_of_ranks(datatype: DataType, ranks: int) -> None:
    generator = np.random.default_rng(ranks)
    totals = anything(generator, (1, 500), F32 if datatype in SMALL_FLOATS else datatype)
    near = generator.integers(-3, 4, 500).astype(totals.dtype) + np.array(ranks * 5 % 251).astype(totals.dtype)
    totals = np.concatenate([totals[0], near, near * np.array(ranks % 2**63).astype(totals.dtype)])
    accumulator = Memory(totals)
    kernel(FINISH, datatype)(accumulator.address, np.array([ranks], np.int64).ctypes.data, len(totals))
    assert accumulator.bytes.tobytes() == arithmetic.divide(totals, ranks).tobytes()


@pytest.mark.parametrize("name", ["i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64"])
def test_integer_divided_by_one_is_itself(name: str) -> None:
    datatype = datatype_by_name(name)
    accumulator = Memory(edges(datatype))
    kernel(FINISH, datatype)(accumulator.address, np.array([1], np.int64).ctypes.data, len(edges(datatype)))
    assert accumulator.bytes.tobytes() == edges(datatype).tobytes()


def every(datatype: DataType) -> np.ndarray:
    """Every bit pattern of a small float."""
    return np.arange(1 << 8 * datatype.itemsize).astype(f"u{datatype.itemsize}").view(datatype.numpy)


@EVERY_SMALL_FLOAT
def test_every_small_float_is_widened_and_comes_back(datatype: DataType) -> None:
    values = every(datatype)
    accumulator = Memory(values, room=4 * len(values))
    kernel(WIDEN, datatype)(accumulator.address, 0, len(values))
    wide = arithmetic.widen(values, datatype)
    assert accumulator.bytes.tobytes() == wide.tobytes()
    kernel(NARROW, datatype)(accumulator.address, 0, len(values))
    assert accumulator.bytes[: values.nbytes].tobytes() == arithmetic.narrow(wide, datatype).tobytes()
    accumulator.check()


@EVERY_SMALL_FLOAT
def test_rounding_to_a_small_float(datatype: DataType) -> None:
    small = arithmetic.widen(every(datatype), datatype).view(np.uint32)
    ties = small + np.uint32(1 << (22 - digits_of(datatype)))  # in the middle of two normal numbers
    anywhere = np.random.default_rng(1).integers(0, 2**32, 2**16, np.uint32)
    for bits in (ties, ties - np.uint32(1), ties + np.uint32(1), anywhere):
        accumulator = Memory(bits)
        kernel(NARROW, datatype)(accumulator.address, 0, len(bits))
        rounded = arithmetic.narrow(bits.view(np.float32), datatype)
        assert accumulator.bytes[: rounded.nbytes].tobytes() == rounded.tobytes()


@njit
def _converted_by_bits(f16, f32, of_f16, of_f32):
    for i in range(len(f16)):
        of_f16[i] = _f32_of_f16_by_bits(f16[i])
    for i in range(len(f32)):
        of_f32[i] = _f16_of_f32_by_bits(f32[i])


def test_f16_by_bits_where_the_processor_does_not_convert() -> None:
    every = np.arange(2**16, dtype=np.uint16)
    numbers = every[~np.isnan(every.view(np.float16))]
    values = numbers.view(np.float16).astype(np.float32).view(np.uint32)
    near = np.concatenate([values + np.uint32(step) for step in (0, 1, 0xFFF, 0x1000, 0x1001, 0x1FFF)])
    anywhere = np.random.default_rng(1).integers(0, 2**32, 2**18, np.uint32)
    f32 = np.concatenate([near, anywhere]).view(np.float32)
    f32 = f32[~np.isnan(f32)]
    of_f16, of_f32 = np.zeros(len(every), np.float32), np.zeros(len(f32), np.uint16)
    _converted_by_bits(every, f32, of_f16, of_f32)
    f16 = datatype_by_name("f16")
    assert arithmetic.canonical(of_f16).tobytes() == arithmetic.widen(every.view(np.float16), f16).tobytes()
    assert of_f32.tobytes() == arithmetic.narrow(f32, f16).tobytes()


@EVERY_SMALL_FLOAT
@pytest.mark.parametrize("name", ["SUM", "PROD", "MEAN"])
def test_wide_partials(datatype: DataType, name: str) -> None:
    """Two devices send f32 up, a third adds these and rounds once."""
    operation, generator = operation_by_name(name), np.random.default_rng(3)
    groups = [anything(generator, (ranks, 300), datatype) for ranks in (2, 3)]
    partials = np.stack([operation.partial(group, datatype, wide=True) for group in groups])
    accumulator, data = Memory(partials[0]), Memory(partials[1], offset=1)
    kernel(operation.code, F32)(accumulator.address, data.address, 300)
    if name == "MEAN":
        kernel(FINISH, datatype)(accumulator.address, np.array([5], np.int64).ctypes.data, 300)
    kernel(NARROW, datatype)(accumulator.address, 0, 300)
    expected = operation.finish(operation.partial(partials, F32), 5, datatype)
    assert accumulator.bytes[: expected.nbytes].tobytes() == expected.tobytes()


def test_table_has_the_kernels() -> None:
    assert kernel_table().shape == (MAX_OPS, MAX_DTYPES)
    assert {(int(row), int(column)) for row, column in np.argwhere(kernel_table())} == set(KERNELS)


@njit
def _is_supported(engine, op, dtype):
    return is_supported(engine_at(engine), op, dtype)


@njit
def _itemsize(engine, dtype):
    return itemsize(engine_at(engine), dtype)


def test_device_refuses_unsupported_operations() -> None:
    table = kernel_table()
    table[0] = itemsize_table()
    header = np.zeros(1, ENGINE)
    header["kernel_offset"] = (int(table.ctypes.data) - int(header.ctypes.data)) % 2**64
    base = np.uint64(header.ctypes.data)
    for op in range(256):
        for dtype in range(256):
            assert _is_supported(base, np.uint8(op), np.uint8(dtype)) == supports(op, dtype), (op, dtype)
    for datatype in DATATYPES:
        assert _itemsize(base, np.uint8(datatype.code)) == datatype.itemsize


@pytest.fixture(scope="module")
def optimised_code() -> dict[int, str]:
    """LLVM's optimised code of each kernel, by its number in DISTINCT; compiled anew, as a cache keeps no such text."""
    store = addresses_of(DISTINCT)
    function = njit("void(uint64)")(lambda table: store(table))
    text = function.inspect_llvm(function.signatures[0])
    bodies = re.findall(r"^define internal void @kernel_(\d+)\(.*?\{\n(.*?)^\}", text, re.M | re.S)
    return {int(number): body for number, body in bodies}


@pytest.mark.deep
@pytest.mark.skipif(
    "+avx2" not in cpu_target.target_context.codegen().magic_tuple()[2].split(","),
    reason="for a processor without AVX2, LLVM finds some vectors not worth their while",
)
@pytest.mark.parametrize("place", KERNELS, ids=lambda place: f"{place[0]}-{DType(place[1]).name}")
def test_kernel_is_vectorised(place: tuple[int, int], optimised_code: dict[int, str]) -> None:
    """The loop loads and stores vectors, at any address; it computes in lanes no wider than an element, so that none go
    to waste."""
    body = optimised_code[DISTINCT.index(KERNELS[place])]
    lanes = r"<\d+ x (i\d+|half|float|double)>"
    assert re.search(rf"load {lanes}, ptr", body)
    assert re.search(rf"store {lanes} ", body)
    assert not re.search(r"masked\.(gather|scatter)", body)
    assert set(re.findall(r"(?:load|store) <\d+ x .*, align (\d+)", body)) == {"1"}
    if place[0] != FINISH:  # integers are divided as floats
        bits = {"half": 16, "float": 32, "double": 64}
        widest = max(bits.get(lane) or int(lane[1:]) for lane in re.findall(lanes, body))
        accumulator = 32 if place[0] in (WIDEN, NARROW) else KERNELS[place].accumulator.bitwidth
        assert widest <= accumulator


def test_speed_of_every_kernel_can_be_measured(capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(__main__, "AREA", 1 << 16)
    __main__.main()
    printed = capsys.readouterr().out
    for family in Family:
        assert f"### {family}\n" in printed
    speeds = re.findall(r"\d+ / \d+\.\d", printed)
    same_as_sum = [place for place in KERNELS if place[0] == Op.MEAN]
    assert len(speeds) == 1 + len(KERNELS) - len(same_as_sum)
    assert {operation.name for operation in OPERATIONS} - set(re.findall(r"^\| (\w+) \|", printed, re.M)) == {"MEAN"}

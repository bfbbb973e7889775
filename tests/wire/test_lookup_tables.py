"""Status, operations and data types: complete, and found by code, name and numpy type."""

from __future__ import annotations

import numpy as np
import pytest

from fanin_wire.abi import DType, Op, Status
from fanin_wire.datatypes import DATATYPES, UnsupportedDataType, datatype_by_code, datatype_by_name, datatype_of
from fanin_wire.operations import OPERATIONS, UnsupportedOperation, operation_by_code, operation_by_name
from fanin_wire.status import STATUSES, status_entry


def test_every_status_has_a_row():
    assert {code: entry.name for code, entry in STATUSES.items()} == {int(code): code.name for code in Status}


@pytest.mark.parametrize("code", Status, ids=lambda code: code.name)
def test_status_says_what_it_means_and_what_to_do(code):
    entry = status_entry(code)
    assert entry.meaning.endswith(".")
    assert entry.remedy.endswith(".")
    assert str(entry).startswith(code.name)


def test_status_of_a_later_version():
    assert status_entry(250).name == "STATUS_250"


def test_every_operation_and_type_has_a_row():
    assert {entry.code for entry in OPERATIONS} == set(Op) - {Op["NONE"]}
    assert {entry.code for entry in DATATYPES} == set(DType) - {DType["NONE"]}


@pytest.mark.parametrize("entry", DATATYPES, ids=lambda entry: entry.name)
def test_data_type_is_found(entry):
    assert datatype_by_code(entry.code) is datatype_by_name(entry.name.upper()) is datatype_of(entry.numpy) is entry
    assert entry.itemsize == int(entry.name[1:]) // 8
    assert entry.name == DType(entry.code).name.lower()


@pytest.mark.parametrize("entry", OPERATIONS, ids=lambda entry: entry.name)
def test_operation_is_found(entry):
    assert operation_by_code(entry.code) is operation_by_name(entry.name.lower()) is entry
    assert entry.name == Op(entry.code).name


def test_python_names_of_types():
    assert datatype_of(float).name == "f64"
    assert datatype_of("int32").name == "i32"


@pytest.mark.parametrize("dtype", [np.float16, np.uint8, np.complex64, np.dtype([("a", "f4")]), "U3"])
def test_unsupported_numpy_type(dtype):
    with pytest.raises(UnsupportedDataType, match=r"not supported; supported: f32 \(float32\), f64"):
        datatype_of(dtype)


def test_big_endian_type_gets_its_remedy():
    with pytest.raises(UnsupportedDataType, match=r"array\.astype\('<f4'\)"):
        datatype_of(">f4")


def test_unknown_codes_and_names():
    with pytest.raises(UnsupportedDataType, match="with code 0"):
        datatype_by_code(0)
    with pytest.raises(UnsupportedDataType, match="'f8'"):
        datatype_by_name("f8")
    with pytest.raises(UnsupportedOperation, match="with code 99 is not supported; supported: SUM, MIN, MAX, MEAN"):
        operation_by_code(99)
    with pytest.raises(ValueError, match="'PROD'"):
        operation_by_name("PROD")

"""Status, operations and data types: complete, and found by code, name and numpy type."""

import re

import cffi
import numpy as np
import pytest

from fanin_wire.abi import DType, Op, Status
from fanin_wire.datatypes import (
    DATATYPES,
    DataType,
    Family,
    UnsupportedDataType,
    by_layout,
    datatype_by_code,
    datatype_by_name,
    datatype_of,
)
from fanin_wire.operations import (
    OPERATIONS,
    UnsupportedOperation,
    check_supported,
    operation_by_code,
    operation_by_name,
    supports,
)
from fanin_wire.status import STATUSES, status_entry

EVERY_DATATYPE = pytest.mark.parametrize("entry", DATATYPES, ids=lambda entry: entry.name)
C_PAIRS = {"f32": "float", "f64": "double", "i16": "short", "i32": "int", "i64": "long"}


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


@pytest.mark.parametrize("rows", [OPERATIONS, DATATYPES], ids=["operations", "types"])
def test_codes_and_names_are_given_once(rows):
    codes, names = {row.code for row in rows}, {row.name for row in rows}
    assert codes == set(range(1, len(rows) + 1))
    assert len(names) == len(rows)


@EVERY_DATATYPE
def test_data_type_is_found(entry):
    assert datatype_by_code(entry.code) is datatype_by_name(entry.name.upper()) is entry
    assert entry.name == DType(entry.code).name.lower()
    assert datatype_of(entry.alias or entry.numpy) is entry


def test_two_types_of_one_storage_need_an_alias():
    """Else the arrays of one would count as the other."""
    eight_bits = DataType(99, "f8", np.dtype("<u1"), Family.SMALL_FLOAT)
    with pytest.raises(ValueError, match="f8 is stored as u8 is: give its row an alias"):
        by_layout([*DATATYPES, eight_bits])
    assert by_layout([*DATATYPES, eight_bits._replace(alias="float8")]) == by_layout(DATATYPES)


@EVERY_DATATYPE
def test_a_name_says_the_size(entry):
    """Pairs have the size of a struct in C: `test_pairs_lie_as_in_c`."""
    if bits := re.fullmatch(r"[a-z]+(\d+)", entry.name):
        assert 8 * entry.itemsize == int(bits[1])
    assert entry.widening * entry.itemsize == (4 if entry.family == Family.SMALL_FLOAT else entry.itemsize)


@pytest.mark.parametrize("value", C_PAIRS)
def test_pairs_lie_as_in_c(value):
    ffi = cffi.FFI()
    ffi.cdef(f"struct pair {{ {C_PAIRS[value]} value; int index; }};")
    fields = datatype_by_name(f"{value}_i32").numpy.fields
    assert fields is not None
    for name, field in ffi.typeof("struct pair").fields:
        assert fields[name][1] == field.offset
    assert datatype_by_name(f"{value}_i32").itemsize == ffi.sizeof("struct pair")


def test_pair_by_its_layout_whatever_its_fields_are_called():
    assert datatype_of(np.dtype([("loss", "f8"), ("rank", "i4")], align=True)).name == "f64_i32"
    assert datatype_of([("x", "<i4"), ("y", "<i4")]).name == "i32_i32"


@pytest.mark.parametrize(
    "dtype",
    [
        [("value", "f8"), ("index", "i4")],  # packed
        [("value", "f4"), ("index", "i8")],
        [("value", "f4"), ("index", "u4")],
        [("value", "f4"), ("index", "i4"), ("more", "i4")],
        [("a", "f4")],
    ],
    ids=str,
)
def test_struct_of_another_layout(dtype):
    with pytest.raises(UnsupportedDataType, match=r"A pair has a value and an int32 index, in C layout: .*align=True"):
        datatype_of(dtype)


def test_bf16_by_name():
    assert datatype_of("bfloat16").name == "bf16"
    assert datatype_by_name("bf16").numpy == np.uint16
    assert datatype_of(np.uint16).name == "u16"
    assert datatype_by_name("bf16").numpy_name == "bfloat16"


def test_bf16_of_ml_dtypes():
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed")
    assert datatype_of(ml_dtypes.bfloat16).name == datatype_of(np.zeros(2, ml_dtypes.bfloat16).dtype).name == "bf16"
    with pytest.raises(UnsupportedDataType, match="int4"):
        datatype_of(ml_dtypes.int4)


@pytest.mark.parametrize("entry", OPERATIONS, ids=lambda entry: entry.name)
def test_operation_is_found(entry):
    assert operation_by_code(entry.code) is operation_by_name(entry.name.lower()) is entry
    assert entry.name == Op(entry.code).name


def test_python_names_of_types():
    assert datatype_of(float).name == "f64"
    assert datatype_of(bool).name == "bool"
    assert datatype_of(complex).name == "c128"
    assert datatype_of("int32").name == "i32"
    assert datatype_of(np.longlong).name == datatype_of(np.int64).name == "i64"


@pytest.mark.parametrize("dtype", [np.longdouble, "U3", "M8[s]", object, "S4", "V4"])
def test_unsupported_numpy_type(dtype):
    with pytest.raises(UnsupportedDataType, match=r"not supported; supported: f32 \(float32\), .* bf16 \(bfloat16\), "):
        datatype_of(dtype)


def test_big_endian_type_gets_its_remedy():
    with pytest.raises(UnsupportedDataType, match=r"array\.astype\('<f4'\)"):
        datatype_of(">f4")
    with pytest.raises(UnsupportedDataType, match=r"array\.astype\(the same dtype with \.newbyteorder\('<'\)\)"):
        datatype_of([("value", ">f4"), ("index", ">i4")])


def test_unknown_codes_and_names():
    with pytest.raises(UnsupportedDataType, match="with code 0"):
        datatype_by_code(0)
    with pytest.raises(UnsupportedDataType, match="'f8'"):
        datatype_by_name("f8")
    with pytest.raises(UnsupportedOperation, match="with code 99 is not supported; supported: SUM, MIN, MAX, MEAN"):
        operation_by_code(99)
    with pytest.raises(ValueError, match="'MEDIAN'"):
        operation_by_name("MEDIAN")


# Again by hand, for those of other libraries as well: a wrong family in a row would be wrong everywhere.
EVERY_NUMBER = {"SUM", "PROD", "MEAN", "MIN", "MAX"}
OF_INTEGERS = {"LAND", "LOR", "LXOR", "BAND", "BOR", "BXOR"}
TAKEN = {
    Family.INTEGER: EVERY_NUMBER | OF_INTEGERS,
    Family.FLOAT: EVERY_NUMBER,
    Family.SMALL_FLOAT: EVERY_NUMBER,
    Family.COMPLEX: {"SUM"},
    Family.BOOL: {"LAND", "LOR", "LXOR"},
    Family.PAIR: {"MINLOC", "MAXLOC"},
}


@pytest.mark.parametrize("family", TAKEN, ids=lambda family: family.name)
def test_families_take_what_they_should(family):
    known = set.union(*TAKEN.values())
    assert {row.name for row in OPERATIONS if family in row.families} & known == TAKEN[family]


@EVERY_DATATYPE
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_combination_is_taken_or_refused_by_name(operation, entry):
    assert supports(operation.code, entry.code) is operation.takes(entry)
    if operation.takes(entry):
        check_supported(operation, entry)
        return
    names = ", ".join(row.name for row in OPERATIONS if row.takes(entry))
    refusal = rf"^operation {operation.name} of {entry.name} is not supported; .*: {entry.name} has {names}; "
    for refused in (check_supported, lambda op, dtype: op.oracle(np.zeros((2, 3), dtype.numpy), dtype)):
        with pytest.raises(UnsupportedOperation, match=refusal + rf"{operation.name} takes "):
            refused(operation, entry)


def test_unknown_codes_are_not_supported():
    assert not supports(Op.NONE, DType.F32)
    assert not supports(Op.SUM, DType.NONE)
    assert not supports(max(Op) + 1, DType.F32)
    assert not supports(Op.SUM, max(DType) + 1)


@EVERY_DATATYPE
def test_sums_of_small_floats_are_wide(entry):
    wide = [row.name for row in OPERATIONS if row.widens(entry)]
    assert wide == (["SUM", "MEAN", "PROD"] if entry.family == Family.SMALL_FLOAT else [])

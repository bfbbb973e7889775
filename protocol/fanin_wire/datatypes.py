"""Types of the elements of a collective's data: one table, with look-ups by code, name and numpy dtype.

On the wire and in memory the elements are little-endian, in C layout. numpy has no bfloat16: its elements are stored as
uint16, and a dtype that calls itself `bfloat16` (the one of ml_dtypes, which is not needed here) is taken for it. The
pair types are C structs of a value and an index, with C's padding; any numpy dtype of that layout is the same type,
whatever it calls its fields.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

import numpy as np

from fanin_wire.abi import DType


class UnsupportedDataType(ValueError):
    """A data type that no device can compute with; the message lists those it can."""

    def __init__(self, asked: object, remedy: str = "") -> None:
        names = ", ".join(f"{entry.name} ({entry.numpy_name})" for entry in DATATYPES)
        super().__init__(f"data type {asked} is not supported; supported: {names}. {remedy}".rstrip(" "))


class Family(enum.StrEnum):
    """Types that the same operations take and compute in the same way."""

    INTEGER = "integer"
    FLOAT = "float"
    SMALL_FLOAT = "small float"
    BOOL = "bool"
    COMPLEX = "complex"
    PAIR = "pair"


class DataType(NamedTuple):
    """An element type: its code in CETH and WQE, its name, the numpy dtype of its storage, its family."""

    code: int
    name: str
    numpy: np.dtype
    family: Family

    @property
    def itemsize(self) -> int:
        """Bytes of one element, with the padding of a pair."""
        return self.numpy.itemsize

    @property
    def numpy_name(self) -> str:
        """What the type is called in numpy."""
        if self.numpy.names is not None:
            return " and ".join(self.numpy[name].name for name in self.numpy.names)
        return BFLOAT16 if self.code == DType["BF16"] else self.numpy.name


BFLOAT16 = "bfloat16"


def _pair(value: str) -> np.dtype:
    """A value and its index as MPI's pair types have them: a C struct."""
    return np.dtype([("value", value), ("index", "<i4")], align=True)


DATATYPES = (
    DataType(DType["F32"], "f32", np.dtype("<f4"), Family.FLOAT),
    DataType(DType["F64"], "f64", np.dtype("<f8"), Family.FLOAT),
    DataType(DType["I32"], "i32", np.dtype("<i4"), Family.INTEGER),
    DataType(DType["I64"], "i64", np.dtype("<i8"), Family.INTEGER),
    DataType(DType["I8"], "i8", np.dtype("<i1"), Family.INTEGER),
    DataType(DType["I16"], "i16", np.dtype("<i2"), Family.INTEGER),
    DataType(DType["U8"], "u8", np.dtype("<u1"), Family.INTEGER),
    DataType(DType["U16"], "u16", np.dtype("<u2"), Family.INTEGER),
    DataType(DType["U32"], "u32", np.dtype("<u4"), Family.INTEGER),
    DataType(DType["U64"], "u64", np.dtype("<u8"), Family.INTEGER),
    DataType(DType["F16"], "f16", np.dtype("<f2"), Family.SMALL_FLOAT),
    DataType(DType["BF16"], "bf16", np.dtype("<u2"), Family.SMALL_FLOAT),
    DataType(DType["BOOL"], "bool", np.dtype("?"), Family.BOOL),
    DataType(DType["C64"], "c64", np.dtype("<c8"), Family.COMPLEX),
    DataType(DType["C128"], "c128", np.dtype("<c16"), Family.COMPLEX),
    DataType(DType["F32_I32"], "f32_i32", _pair("<f4"), Family.PAIR),
    DataType(DType["F64_I32"], "f64_i32", _pair("<f8"), Family.PAIR),
    DataType(DType["I16_I32"], "i16_i32", _pair("<i2"), Family.PAIR),
    DataType(DType["I32_I32"], "i32_i32", _pair("<i4"), Family.PAIR),
    DataType(DType["I64_I32"], "i64_i32", _pair("<i8"), Family.PAIR),
)

Layout = tuple[object, ...]


def _layout(dtype: np.dtype) -> Layout:
    """What two dtypes must have in common to be one type: size, kinds, offsets; not the names of fields."""
    if dtype.names is None or dtype.fields is None:
        return (dtype,)
    return (dtype.itemsize, *(dtype.fields[name][:2] for name in dtype.names))


_BY_CODE = {entry.code: entry for entry in DATATYPES}
_BY_NAME = {entry.name: entry for entry in DATATYPES}
_BF16 = _BY_NAME["bf16"]
_BY_LAYOUT = {_layout(entry.numpy): entry for entry in DATATYPES if entry is not _BF16}


def datatype_by_code(code: int) -> DataType:
    """The type with a wire code; UnsupportedDataType if there is none."""
    if entry := _BY_CODE.get(int(code)):
        return entry
    raise UnsupportedDataType(f"with code {int(code)}")


def datatype_by_name(name: str) -> DataType:
    """The type called `name` ("f32"; upper or lower case); UnsupportedDataType if there is none.

    "bf16" is the way to say what an array of plain uint16 holds.
    """
    if entry := _BY_NAME.get(name.lower()):
        return entry
    raise UnsupportedDataType(repr(name))


def datatype_of(dtype: np.typing.DTypeLike) -> DataType:
    """The type of numpy arrays of `dtype`; UnsupportedDataType if there is none or it is big-endian."""
    if isinstance(dtype, str) and dtype == BFLOAT16:  # numpy knows the name only where ml_dtypes is imported
        return _BF16
    wanted = np.dtype(dtype)
    if wanted.name == BFLOAT16 and wanted.itemsize == _BF16.itemsize:
        return _BF16
    if entry := _BY_LAYOUT.get(_layout(wanted)):
        return entry
    raise UnsupportedDataType(*_refusal(wanted))


def _refusal(dtype: np.dtype) -> tuple[str, str]:
    """What is not supported, and what to do."""
    little = dtype.newbyteorder("<")
    if entry := _BY_LAYOUT.get(_layout(little)):
        wanted = "the same dtype with .newbyteorder('<')" if entry.family == Family.PAIR else repr(little.str)
        return dtype.str, f"Convert to little-endian first: array.astype({wanted})."
    if dtype.names is not None:
        return str(dtype), "A pair has a value and an int32 index, in C layout: numpy.dtype([...], align=True)."
    return dtype.name, ""

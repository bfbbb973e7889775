"""Element types of a collective's data: one table, with look-ups by code, name and numpy type.

All but the arithmetic of devices follows from a row (CONTRIBUTING.md, *Adding a type*). Elements are little-endian, in
C layout. Types that numpy lacks, such as bfloat16, are stored as unsigned integers; a dtype called by their `alias`
(that of ml_dtypes, which is not needed here) is such a type. Pairs are C structs of a value and an index, with C's
padding; any numpy dtype of that layout is the same type, whatever its fields are called.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

BF16_NAN = 0x7FC0
WIDE_BYTES = 4  # of f32, in which small floats are computed
Conversion = Callable[[np.ndarray], np.ndarray]


class UnsupportedDataType(ValueError):
    """No device computes with this type; the message lists the supported ones."""

    def __init__(self, asked: object, remedy: str = "") -> None:
        names = ", ".join(f"{entry.name} ({entry.numpy_name})" for entry in DATATYPES)
        super().__init__(f"data type {asked} is not supported; supported: {names}. {remedy}".rstrip(" "))


class Family(enum.StrEnum):
    """Types that take the same operations and compute alike."""

    INTEGER = "integer"
    FLOAT = "float"
    SMALL_FLOAT = "small float"
    BOOL = "bool"
    COMPLEX = "complex"
    PAIR = "pair"


class DataType(NamedTuple):
    """An element type.

    code, name: in CETH, WQE and SPEC.md. numpy: dtype of its storage. alias: in ml_dtypes and torch, if numpy lacks the
    type. decode, encode: of a small float, from storage to float32 and back. nccl, sharp: the ends of
    the names NCCL_... and SHARP_DTYPE_...; "" if that library lacks the type.
    """

    code: int
    name: str
    numpy: np.dtype
    family: Family
    alias: str = ""
    decode: Conversion = np.asarray
    encode: Conversion = np.asarray
    nccl: str = ""
    sharp: str = ""

    @property
    def itemsize(self) -> int:
        """Bytes of an element, with the padding of a pair."""
        return self.numpy.itemsize

    @property
    def numpy_name(self) -> str:
        """Its name in numpy, or its alias."""
        if self.numpy.names is not None:
            return " and ".join(self.numpy[name].name for name in self.numpy.names)
        return self.alias or self.numpy.name

    @property
    def widening(self) -> int:
        """How many times wider its sums are: those of small floats are f32."""
        return WIDE_BYTES // self.itemsize if self.family == Family.SMALL_FLOAT else 1


# Small floats, from their storage to f32, which holds every value, and back: to nearest, ties to even. If the storage
# is a numpy float, a NaN may be any; `arithmetic` makes it canonical.


def f32_of_f16(stored: np.ndarray) -> np.ndarray:
    return stored.astype(np.float32)


def f16_of_f32(values: np.ndarray) -> np.ndarray:
    return values.astype("<f2")


def f32_of_bf16(stored: np.ndarray) -> np.ndarray:
    """The bits of bf16, uint16, are the upper half of a float32."""
    return (stored.astype(np.uint32) << 16).view(np.float32)


def bf16_of_f32(values: np.ndarray) -> np.ndarray:
    """Returns the bits of bf16, uint16."""
    bits = values.view(np.uint32)
    half_unit = 0x7FFF + ((bits >> 16) & 1)  # a tie is rounded up only if that makes the last bit even
    return np.where(np.isnan(values), BF16_NAN, (bits + half_unit) >> 16).astype("<u2")


# The table


def _pair(value: str) -> np.dtype:
    """A pair type of MPI: a C struct of a value and its index."""
    return np.dtype([("value", value), ("index", "<i4")], align=True)


_F16 = (f32_of_f16, f16_of_f32)
_BF16 = (f32_of_bf16, bf16_of_f32)
DATATYPES = (
    DataType(1, "f32", np.dtype("<f4"), Family.FLOAT, nccl="FLOAT32", sharp="FLOAT"),
    DataType(2, "f64", np.dtype("<f8"), Family.FLOAT, nccl="FLOAT64", sharp="DOUBLE"),
    DataType(3, "i32", np.dtype("<i4"), Family.INTEGER, nccl="INT32", sharp="INT"),
    DataType(4, "i64", np.dtype("<i8"), Family.INTEGER, nccl="INT64", sharp="LONG"),
    DataType(5, "i8", np.dtype("<i1"), Family.INTEGER, nccl="INT8", sharp="INT8"),
    DataType(6, "i16", np.dtype("<i2"), Family.INTEGER, sharp="SHORT"),
    DataType(7, "u8", np.dtype("<u1"), Family.INTEGER, nccl="UINT8", sharp="UINT8"),
    DataType(8, "u16", np.dtype("<u2"), Family.INTEGER, sharp="UNSIGNED_SHORT"),
    DataType(9, "u32", np.dtype("<u4"), Family.INTEGER, nccl="UINT32", sharp="UNSIGNED"),
    DataType(10, "u64", np.dtype("<u8"), Family.INTEGER, nccl="UINT64", sharp="UNSIGNED_LONG"),
    DataType(11, "f16", np.dtype("<f2"), Family.SMALL_FLOAT, "", *_F16, nccl="FLOAT16", sharp="FLOAT_SHORT"),
    DataType(12, "bf16", np.dtype("<u2"), Family.SMALL_FLOAT, "bfloat16", *_BF16, nccl="BFLOAT16", sharp="BFLOAT16"),
    DataType(13, "bool", np.dtype("?"), Family.BOOL),
    DataType(14, "c64", np.dtype("<c8"), Family.COMPLEX),
    DataType(15, "c128", np.dtype("<c16"), Family.COMPLEX),
    DataType(16, "f32_i32", _pair("<f4"), Family.PAIR),
    DataType(17, "f64_i32", _pair("<f8"), Family.PAIR),
    DataType(18, "i16_i32", _pair("<i2"), Family.PAIR),
    DataType(19, "i32_i32", _pair("<i4"), Family.PAIR),
    DataType(20, "i64_i32", _pair("<i8"), Family.PAIR),
)

Layout = tuple[object, ...]


def _layout(dtype: np.dtype) -> Layout:
    """What makes two dtypes one type: size, kinds, offsets; not the names of fields."""
    if dtype.names is None or dtype.fields is None:
        return (dtype,)
    return (dtype.itemsize, *(dtype.fields[name][:2] for name in dtype.names))


def by_layout(rows: Iterable[DataType]) -> dict[Layout, DataType]:
    """The types that an array can have by its dtype alone. ValueError if two share a dtype."""
    found: dict[Layout, DataType] = {}
    for entry in rows:
        if entry.alias:
            continue
        other = found.setdefault(_layout(entry.numpy), entry)
        if other is not entry:
            raise ValueError(f"{entry.name} is stored as {other.name} is: give its row an alias, or another storage")
    return found


# Look-ups

_BY_CODE = {entry.code: entry for entry in DATATYPES}
_BY_NAME = {entry.name: entry for entry in DATATYPES}
_BY_ALIAS = {entry.alias: entry for entry in DATATYPES if entry.alias}
_BY_LAYOUT = by_layout(DATATYPES)


def datatype_by_code(code: int) -> DataType:
    """The type with a wire code; UnsupportedDataType if unknown."""
    if entry := _BY_CODE.get(int(code)):
        return entry
    raise UnsupportedDataType(f"with code {int(code)}")


def datatype_by_name(name: str) -> DataType:
    """The type called `name`, in any case; "bf16" says what plain uint16 hold. UnsupportedDataType if unknown."""
    if entry := _BY_NAME.get(name.lower()):
        return entry
    raise UnsupportedDataType(repr(name))


def datatype_of(dtype: np.typing.DTypeLike) -> DataType:
    """The type of arrays of `dtype`; UnsupportedDataType if none is, or it is big-endian."""
    if isinstance(dtype, str) and dtype in _BY_ALIAS:  # numpy knows the name only where ml_dtypes is imported
        return _BY_ALIAS[dtype]
    wanted = np.dtype(dtype)
    entry = _BY_ALIAS.get(wanted.name)
    if entry and wanted.itemsize == entry.itemsize:
        return entry
    if entry := _BY_LAYOUT.get(_layout(wanted)):
        return entry
    raise UnsupportedDataType(*_refusal(wanted))


def _refusal(dtype: np.dtype) -> tuple[str, str]:
    """What is not supported, and the remedy."""
    little = dtype.newbyteorder("<")
    if entry := _BY_LAYOUT.get(_layout(little)):
        wanted = "the same dtype with .newbyteorder('<')" if entry.family == Family.PAIR else repr(little.str)
        return dtype.str, f"Convert to little-endian first: array.astype({wanted})."
    if dtype.names is not None:
        return str(dtype), "A pair has a value and an int32 index, in C layout: numpy.dtype([...], align=True)."
    return dtype.name, ""

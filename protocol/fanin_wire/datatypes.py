"""Types of the elements of a collective's data: one table, with look-ups by code, name and numpy dtype.

On the wire and in memory the elements are little-endian, in C layout.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fanin_wire.abi import DType


class UnsupportedDataType(ValueError):
    """A data type that no device can compute with; the message lists those it can."""

    def __init__(self, asked: object, remedy: str = "") -> None:
        names = ", ".join(f"{entry.name} ({entry.numpy.name})" for entry in DATATYPES)
        super().__init__(f"data type {asked} is not supported; supported: {names}. {remedy}".rstrip(" "))


class DataType(NamedTuple):
    """An element type: its code in CETH and WQE, its name, and the numpy dtype of its little-endian form."""

    code: int
    name: str
    numpy: np.dtype

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.numpy.itemsize

    @property
    def is_float(self) -> bool:
        """Whether the elements are IEEE 754 numbers."""
        return self.numpy.kind == "f"


DATATYPES = (
    DataType(DType["F32"], "f32", np.dtype("<f4")),
    DataType(DType["F64"], "f64", np.dtype("<f8")),
    DataType(DType["I32"], "i32", np.dtype("<i4")),
    DataType(DType["I64"], "i64", np.dtype("<i8")),
)

_BY_CODE = {entry.code: entry for entry in DATATYPES}
_BY_NAME = {entry.name: entry for entry in DATATYPES}
_BY_NUMPY = {entry.numpy: entry for entry in DATATYPES}


def datatype_by_code(code: int) -> DataType:
    """The type with a wire code; UnsupportedDataType if there is none."""
    if entry := _BY_CODE.get(int(code)):
        return entry
    raise UnsupportedDataType(f"with code {int(code)}")


def datatype_by_name(name: str) -> DataType:
    """The type called `name` ("f32"; upper or lower case); UnsupportedDataType if there is none."""
    if entry := _BY_NAME.get(name.lower()):
        return entry
    raise UnsupportedDataType(repr(name))


def datatype_of(dtype: np.typing.DTypeLike) -> DataType:
    """The type of numpy arrays of `dtype`; UnsupportedDataType if there is none or it is big-endian."""
    wanted = np.dtype(dtype)
    if entry := _BY_NUMPY.get(wanted):
        return entry
    little = wanted.newbyteorder("<")
    if little in _BY_NUMPY:
        raise UnsupportedDataType(wanted.str, f"Convert to little-endian first: array.astype({little.str!r}).")
    raise UnsupportedDataType(wanted.name)

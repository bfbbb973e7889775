"""What a program hands over (numpy arrays, anything with the buffer protocol) as memory for the device."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fanin.errors import InvalidRequest, NotSupported
from fanin_wire.datatypes import DataType, UnsupportedDataType, datatype_of


class Buffers(NamedTuple):
    """Contiguous memory of one rank's data and of its result, of equal size and type."""

    source: np.ndarray
    destination: np.ndarray
    datatype: DataType

    @property
    def nbytes(self) -> int:
        """Length of the message."""
        return self.source.nbytes


def prepare(array: Any, out: Any) -> tuple[Buffers, Any]:
    """Buffers of a collective, and the object that is its result: `out`, or a new array of the shape of `array`.

    An `array` that is not C-contiguous is copied once; the device reads the copy. Raises InvalidRequest and
    NotSupported (element type).
    """
    view = _view(array, "the input")
    try:
        datatype = datatype_of(view.dtype)
    except UnsupportedDataType as error:
        raise NotSupported(str(error), remedy="Convert with array.astype.") from None
    source = np.ascontiguousarray(view).reshape(view.shape)
    if out is None:
        out = np.empty(view.shape, view.dtype)
    destination = _view(out, "out")
    _check_destination(source, destination)
    return Buffers(source, destination, datatype), out


def _view(value: Any, what: str) -> np.ndarray:
    """`value` as an array over its own memory; never a copy, in which a result would be lost."""
    if isinstance(value, (np.ndarray, np.generic)):
        return np.asarray(value)
    try:
        return np.asarray(memoryview(value))
    except TypeError:
        kind = type(value).__name__
        raise InvalidRequest(
            f"{what} is a {kind}, which has no buffer",
            remedy="Give a numpy array (numpy.asarray converts) or an object with the buffer protocol.",
        ) from None


def _check_destination(source: np.ndarray, out: np.ndarray) -> None:
    if not out.flags.writeable:
        raise InvalidRequest("out is read-only", remedy="Give a writable array, or none to get a new one.")
    if not out.flags.c_contiguous:
        raise InvalidRequest(
            "out is not C-contiguous", remedy="Give none to get a new array, and assign it: view[...] = result."
        )
    if out.dtype != source.dtype or out.size != source.size:
        raise InvalidRequest(
            f"out has {out.size} elements of {out.dtype.name}, the input {source.size} of {source.dtype.name}",
            remedy="Give an array of the same number of elements of the same type.",
        )
    if source.ctypes.data != out.ctypes.data and np.may_share_memory(source, out):
        raise InvalidRequest(
            "out overlaps the input in part", remedy="Give the same array for both, or a separate one."
        )

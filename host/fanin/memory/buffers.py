"""What a program hands over (anything with the buffer protocol) as memory for devices; free bytes of a region.

Devices read and write contiguous memory. An input that is not C-contiguous is copied; an output must be writable and
C-contiguous, since a result in a copy would be lost. Record 0105 (docs/decisions) says why small tensors of PyTorch
share regions.
"""

import math
import operator
from bisect import bisect
from typing import Any

import numpy as np

from fanin.driver import ffi
from fanin.errors import InvalidRequest, NotSupported

ALIGNMENT = 64  # bytes of a cache line; torch aligns its memory to it, too


def readable(value: Any, what: str = "the input") -> np.ndarray:
    """`value` as contiguous memory to read, in its own shape. InvalidRequest; NotSupported for Python objects."""
    view = _view(value, what)
    if view.flags.c_contiguous:
        return view
    return np.ascontiguousarray(view).reshape(view.shape)


def writable(
    value: Any,
    what: str = "out",
    if_read_only: str = "Give a writable array, or none to get a new one.",
    if_scattered: str = "Give none to get a new array, and assign it: view[...] = result.",
) -> np.ndarray:
    """`value` as memory to write. InvalidRequest, with one of the remedies, if it is read-only or not contiguous."""
    view = _view(value, what)
    if isinstance(value, np.generic) or not view.flags.writeable:  # a numpy scalar can not be changed
        raise InvalidRequest(f"{what} is read-only", remedy=if_read_only)
    if not view.flags.c_contiguous:
        raise InvalidRequest(f"{what} is not C-contiguous", remedy=if_scattered)
    return view


def room(out: Any, shape: tuple[int, ...], dtype: np.dtype) -> tuple[np.ndarray, Any]:
    """Memory for a result, and the object for the program: `out`, or a new array of `shape` if it is None."""
    if out is None:
        new = np.empty(shape, dtype)
        return new, new
    memory = writable(out)
    count = math.prod(shape)
    if memory.dtype != dtype or memory.size != count:
        raise InvalidRequest(
            f"out has {memory.size} elements of {memory.dtype.name}, but the result has {count} of {dtype.name}",
            remedy="Give an array of the same number of elements of the same type.",
        )
    return memory, out


def bytes_of(array: np.ndarray | None) -> np.ndarray | None:
    """A contiguous array as bytes; None if it has none."""
    if array is None or array.nbytes == 0:
        return None
    return (array if array.ndim else array.reshape(1)).view(np.uint8)


def address_of(array: np.ndarray) -> int:
    """Of the first byte. The buffer protocol, which not all types have, takes a fifth of the time."""
    try:
        return int(ffi.cast("uintptr_t", ffi.from_buffer(array)))
    except (TypeError, ValueError):
        return int(array.ctypes.data)


def require_lasting(value: Any) -> None:
    """InvalidRequest if an input needs a copy: a persistent request would send an old one."""
    if not _view(value, "the input").flags.c_contiguous or isinstance(value, np.generic):
        raise InvalidRequest(
            "the input of a persistent request is not C-contiguous, so a copy would be sent",
            remedy="Give a contiguous array, and assign to it before each start: array[...] = view.",
        )


def require_apart(source: np.ndarray, source_offset: int, destination: np.ndarray, destination_offset: int) -> None:
    """InvalidRequest if input and output overlap, unless they lie as in one array of the whole message.

    The offsets: bytes of the message before each. In place is possible, since a segment's result is written when its
    data have been read; at any other distance results would overwrite data still to be read.
    """
    if not np.may_share_memory(source, destination):
        return
    if address_of(source) - source_offset != address_of(destination) - destination_offset:
        raise InvalidRequest(
            "out overlaps the input, and not in place",
            remedy="Give the same array for both, the rank's own place in the larger one, or separate arrays.",
        )


def shape_of(value: Any) -> tuple[int, ...]:
    """A shape as numpy takes it: a number, or a sequence of numbers. InvalidRequest for others."""
    try:
        shape = tuple(map(operator.index, value if np.iterable(value) else (value,)))
    except TypeError:
        shape = (-1,)
    if any(length < 0 for length in shape):
        raise InvalidRequest(f"{value!r} is not a shape", remedy="Give a number of elements, or a tuple of numbers.")
    return shape


def dtype_of(value: Any) -> np.dtype:
    """A type of elements as numpy takes it. InvalidRequest for others, NotSupported for Python objects."""
    try:
        dtype = np.dtype(value)
    except (TypeError, ValueError) as error:
        raise InvalidRequest(
            f"dtype {value!r} is not a type of numpy ({error})", remedy="Give one, for example 'f4' or numpy.int64."
        ) from None
    require_elements(dtype)
    return dtype


def require_elements(dtype: np.dtype) -> None:
    """NotSupported if elements refer to Python objects, which mean nothing in another process."""
    if dtype.hasobject:
        raise NotSupported(
            f"elements of type {dtype} are Python objects, which can not be sent",
            remedy="Convert to numbers or fixed bytes with array.astype.",
        )


def _view(value: Any, what: str) -> np.ndarray:
    """`value` as an array over its own memory; never a copy."""
    view = np.asarray(value if isinstance(value, (np.ndarray, np.generic)) else _memory(value, what))
    require_elements(view.dtype)
    return view


def _memory(value: Any, what: str) -> memoryview:
    try:
        return memoryview(value)
    except TypeError:
        kind = type(value).__name__
        raise InvalidRequest(
            f"{what} is a {kind}, which has no buffer",
            remedy="Give a numpy array (numpy.asarray converts) or an object with the buffer protocol.",
        ) from None


class Arena:
    """`length` bytes, all free at first; first fit. It only counts, and touches no memory."""

    def __init__(self, length: int) -> None:
        self._all_free = [(0, aligned(length))]
        self._free = self._all_free.copy()  # (start, end) in order; between two of them something is taken

    @property
    def is_free(self) -> bool:
        return self._free == self._all_free

    def take(self, length: int) -> int | None:
        """Start of a piece at the first free place that is long enough; None: there is none."""
        length = aligned(length)
        for number, (start, end) in enumerate(self._free):
            if start + length == end:
                del self._free[number]
                return start
            if start + length < end:
                self._free[number] = (start + length, end)
                return start
        return None

    def give_back(self, start: int, length: int) -> None:
        end = start + aligned(length)
        place = bisect(self._free, (start, end))
        if place < len(self._free) and self._free[place][0] == end:
            _, end = self._free.pop(place)
        if place and self._free[place - 1][1] == start:
            place -= 1
            start, _ = self._free.pop(place)
        self._free.insert(place, (start, end))


def aligned(length: int) -> int:
    return -(-length // ALIGNMENT) * ALIGNMENT

"""Sameness: whether a call has the arguments of one before. An array counts as the same if it is the same memory, with
the same shape and type, that may be written to or may not, as before. No array is kept alive for this.

Arguments come as one tuple: those without a name, the function that they are for, the names of the others, and these.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from fanin.buffers import address_of
from fanin.driver import ffi, library

SIMPLE = frozenset({str, int, float, bool, type(None)})
POINTER = ffi.typeof("void *")
MOST_DIMENSIONS = ffi.typeof("enum fanin_arguments_limit").relements["FANIN_MOST_DIMENSIONS"]
from_buffer, cast, CData = ffi.from_buffer, ffi.cast, ffi.CData

Key = tuple[Any, ...]


def key_of(function: Callable, values: tuple) -> Key | None:
    """What makes two calls the same; None if that can not be said of these arguments.

    The place of an array is in it as the buffer itself, which compares and hashes by its address.
    """
    key: list[Any] = []
    try:
        for value in values:
            if type(value) is np.ndarray:
                key += (from_buffer(value), value.shape, value.dtype, value.flags.writeable)
            elif type(value) in SIMPLE or value is function:
                key += (type(value), value)  # for 1, 1.0 and True are equal
            else:
                return None
    except (TypeError, ValueError):  # not contiguous, or of a type that has no buffer
        return None
    return tuple(key)


def lasting(key: Key) -> Key:
    """An equal key that keeps no array alive."""
    return tuple(cast(POINTER, part) if isinstance(part, CData) else part for part in key)


@functools.cache
def knows_arrays() -> bool:
    """Whether the fields of an array are where the driver core takes them to be."""
    probe = (np.zeros((3, 2), "f4"),)
    return bool(library().fanin_same_arguments(Sight(probe).c, id(probe)))


class Sight:
    """Arguments as the driver core knows them again, at a glance: `c`, struct fanin_arguments.

    It takes no other arguments for these. But it may miss these: arrays that are other objects may differ in what does
    not matter, and simple values must be the same objects.
    """

    def __init__(self, values: tuple) -> None:
        # Addresses tell who is who as long as these are alive.
        self._kept = tuple(value.dtype if type(value) is np.ndarray else value for value in values)
        self.c = ffi.new("struct fanin_arguments *", {"count": len(values), "each": len(values)})
        self.c.head, self.c.tuple_head = object.__basicsize__, tuple.__basicsize__
        for argument, value in zip(self.c.each, values, strict=True):
            if type(value) is not np.ndarray:
                argument.object = id(value)
            elif value.ndim <= MOST_DIMENSIONS:
                argument.type, argument.data, argument.dtype = id(np.ndarray), address_of(value), id(value.dtype)
                argument.flags, argument.dimensions, argument.shape = value.flags.num, value.ndim, value.shape

"""Structs of the ABI filled in one call: assigning each member by cffi costs more than all the rest of a post."""

from __future__ import annotations

import operator
import struct
from collections.abc import Iterator, Mapping
from typing import Any

from fanin.driver import ffi

_CODES = {1: "B", 2: "H", 4: "I", 8: "Q"}  # unsigned, by size


class Layout:
    """The members of `struct <name>`: unsigned integers without padding; those of a struct in it are `outer.inner`."""

    def __init__(self, name: str) -> None:
        self._pointer = ffi.typeof(f"struct {name} *")
        members = list(_members(self._pointer.item))
        self._struct = struct.Struct("<" + "".join(_CODES[size] for _, size in members))
        assert self._struct.size == ffi.sizeof(self._pointer.item)
        self._in_order = operator.itemgetter(*(member for member, _ in members))

    def new(self, values: Mapping[str, int]) -> Any:
        """A new struct with a value for each member. OverflowError if one does not fit."""
        made = ffi.new(self._pointer)
        try:
            self._struct.pack_into(ffi.buffer(made), 0, *self._in_order(values))
        except struct.error as error:
            raise OverflowError(str(error)) from None
        return made


def _members(ctype: Any, prefix: str = "") -> Iterator[tuple[str, int]]:
    """Name and size of each integer, in order."""
    for name, field in ctype.fields:
        if field.type.kind == "struct":
            yield from _members(field.type, f"{prefix}{name}.")
        else:
            yield prefix + name, ffi.sizeof(field.type)

"""Enumerations in compiled code: `Opcode.CONFIG` is the integer, as if Opcode were a module of plain integers.

numba has types of its own for members. They do not mix with integers in its type inference, and those of flags can not
be computed with.
"""

import enum
import functools
from types import ModuleType
from typing import Any

from numba import types
from numba.extending import typeof_impl

_type_of_other_class = typeof_impl.dispatch(enum.EnumMeta)


@functools.cache
def _values(enumeration: Any) -> ModuleType:
    """A module with the values of an enumeration's members."""
    module = ModuleType(enumeration.__name__)
    vars(module).update({name: int(member) for name, member in enumeration.__members__.items()})
    return module


def _type_of_class(enumeration: Any, context: Any) -> types.Type:
    if not issubclass(enumeration, int):
        return _type_of_other_class(enumeration, context)
    return types.Module(_values(enumeration))


def _type_of_member(member: Any, context: Any) -> types.Type:
    return typeof_impl(int(member), context)


def compile_as_integers() -> None:
    """Let numba compile the members of IntEnum and IntFlag classes as integers, from now on in this process."""
    typeof_impl.register(enum.EnumMeta, _type_of_class)
    typeof_impl.register(enum.IntEnum, _type_of_member)
    typeof_impl.register(enum.IntFlag, _type_of_member)
